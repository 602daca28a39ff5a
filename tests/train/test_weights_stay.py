"""Lightning's teardown after a training does not reach the weights: on a GPU it would take them to the host."""

from __future__ import annotations

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.train.session import Session
from real_parts import open_line


def addresses(session: Session) -> list[int]:
    return [tensor.data_ptr() for tensor in session.workload.model.state_dict().values()]


def copy_everything(module: torch.nn.Module) -> torch.nn.Module:
    """What `cpu()` does to a module on a GPU: each parameter gets another storage."""
    return module._apply(torch.clone)


def refuse_weights(module: torch.nn.Module) -> torch.nn.Module:
    assert not list(module.parameters()), "weights would leave their device"
    return module


@pytest.mark.parametrize("cpu", [copy_everything, refuse_weights])
@pytest.mark.parametrize("execution", ["eager", "compiled"])
def test_the_weights_keep_their_storages(monkeypatch, cpu, execution):
    session = open_line(Recipe(execution=execution, backend="eager"))
    before, called = addresses(session), []
    monkeypatch.setattr(torch.nn.Module, "cpu", lambda module: [called.append(module), cpu(module)][1])
    session.train()
    assert called  # Lightning still does it; without this the test says nothing
    assert addresses(session) == before
    torch._dynamo.reset()
