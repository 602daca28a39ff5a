"""Simulated studies with known truth -> whether the intervals of `ablate.analysis.engine` hold, as numbers."""
