"""Do the three workloads learn, and only what they may know? Run `python -m benchmarks.learning`."""
