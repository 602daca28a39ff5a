"""Simulated studies with known truth -> whether the intervals of `analysis.statistics.engine` hold, as numbers."""
