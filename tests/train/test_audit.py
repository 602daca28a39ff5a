"""The audit names the line that reads a value back."""

import torch

from ablate.train.audit import audit_step


def test_counts_reads_by_source_line():
    x = torch.arange(4.0)

    def step() -> None:
        x.sum().item()
        x[x > 1]
        x.clone()[x > 1] = 0.0
        x[torch.tensor([0, 1])]  # integer indices have a known size
        torch.nonzero(x)

    sources = audit_step(step)
    assert sum(sources.values()) == 4
    assert all(key.startswith(("main/tests/train/", "tests/train/")) or "test_audit.py:" in key for key in sources)


def test_pure_arithmetic_reads_nothing():
    x = torch.rand(3, 3, requires_grad=True)
    assert audit_step(lambda: (x @ x).relu().sum().backward()) == {}
