"""Does encoding each distinct row once pay? Run `python -m benchmarks.encode_unique`."""
