"""The size of the real rel-hm on one machine: generation, materialization and training, with time and memory."""
