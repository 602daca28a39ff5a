"""The audit names the line that reads a value back, inside compiled code too."""

import torch

from ablate.train.observe.sync_audit import audit_reads, count_lines


def test_counts_reads_by_source_line():
    x = torch.arange(4.0)

    def step() -> None:
        x.sum().item()
        x[x > 1]
        x.clone()[x > 1] = 0.0
        x[torch.tensor([0, 1])]  # integer indices have a known size
        torch.nonzero(x)

    sources = count_lines(audit_reads(step))
    assert sum(sources.values()) == 4
    assert all("test_sync_audit.py:" in key for key in sources)


def test_pure_arithmetic_reads_nothing():
    x = torch.rand(3, 3, requires_grad=True)
    assert audit_reads(lambda: (x @ x).relu().sum().backward()) == []


def test_what_lives_on_the_host_may_be_read():
    count, loss = torch.tensor(3.0), torch.tensor(1.0)

    def step() -> None:
        (count * 2).item()  # computed from host tensors alone
        (count * loss).item()  # needs the loss

    assert len(audit_reads(step, host=[count])) == 1
    assert len(audit_reads(step)) == 2


def test_a_read_inside_compiled_code_is_found_and_named():
    torch._dynamo.reset()

    def masked(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[x > 1] = torch.ones(1)
        return y

    x = torch.arange(4.0)
    compiled = torch.compile(masked, backend="aot_eager")
    compiled(x)
    eager, reads = audit_reads(lambda: masked(x)), audit_reads(lambda: compiled(x))
    assert [read.operator for read in eager] == ["index_put"]
    assert [(read.operator, read.line) for read in reads] == [("index_put", "")]
    assert count_lines(reads, eager) == {f"{eager[0].line} (compiled)": 1}
    torch._dynamo.reset()
