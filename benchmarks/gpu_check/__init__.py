"""What does a GPU add to the evidence, in the minutes that one is lent? Run `python -m benchmarks.gpu_check`."""
