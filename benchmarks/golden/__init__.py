"""Did a change of code change a number? Run `python -m benchmarks.golden`."""
