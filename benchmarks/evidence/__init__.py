"""What does each optimization change, under both meanings of off? Run `python -m benchmarks.evidence`."""
