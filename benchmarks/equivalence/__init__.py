"""Acceptance of loss-curve equivalence: `python -m benchmarks.equivalence`."""
