"""Ablation studies of training speed: which optimization made training faster, how sure, and did it change training."""

__version__ = "0.1.0"
