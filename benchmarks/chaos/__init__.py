"""Random SIGKILLs over runner, workers and trials of a study -> every trial exactly once, or what went wrong."""
