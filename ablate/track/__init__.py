"""Trial records and report on disk -> MLflow: one experiment per study, one run per trial."""
