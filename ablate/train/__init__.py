"""One cell of one workload -> one trial record. Runs in a process of its own: `python -m ablate.train`."""
