"""What is looked at after a training: on batches that it has not seen, each once; stages from a profiler's events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from ablate.core.evidence import Evidence
from ablate.core.recipe import Recipe
from ablate.train.observe import diagnostics
from ablate.train.observe.diagnostics import add_syncs, measure_unseen
from ablate.train.observe.stage_profile import add_stages, sum_stages
from ablate.train.running_loss import make_running_loss
from ablate.train.session import NUM_UNSEEN, Session
from ablate.workloads.contract import checksum
from real_parts import CPU, open_line


@dataclass
class Seen:
    """Checksums of the batches that the compiled forward got, in order."""

    session: Session
    trained: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """A session that has trained 8 steps; what its cell's forward gets is noted, by checksum."""
    session = open_line(Recipe(execution="compiled", backend="eager", forward_dynamic=True))
    found = Seen(session)
    noted = found.trained
    forward = session.module.forward_function

    def note(x: torch.Tensor) -> torch.Tensor:
        noted.append(checksum(session.workload, {"x": x}))
        return forward(x)

    monkeypatch.setattr(session.module, "_forward", (note,))
    session.train()
    noted = found.later
    return found


def test_the_untimed_passes_meet_no_batch_that_was_trained_on(seen: Seen) -> None:
    audited = add_syncs(Evidence(), seen.session)
    assert len(seen.later) == 2 and len(set(seen.later)) == 1  # on a CPU it may compile, so it comes twice
    profiled = add_stages(audited, seen.session)
    assert len(seen.later) == 5 and len(set(seen.later)) == 4  # each profiled step has a batch of its own
    assert len(set(seen.trained)) == 8 and not set(seen.later) & set(seen.trained)
    assert profiled.stages.keys() == {"loader", "copy", "forward", "backward", "step", "metrics"}
    assert "syncs_per_step" in profiled.counters


def test_where_no_batch_is_left_nothing_is_measured() -> None:
    session = open_line()
    session.train()
    while session.unseen.take() is not None:
        pass
    evidence = add_stages(add_syncs(Evidence(), session), session)
    assert evidence == Evidence()


def test_a_batch_that_made_something_compile_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two batches compile once each; the third compiles nothing."""
    session, number = open_line(), iter((0, 1, 1, 2, 2, 2))
    monkeypatch.setattr(diagnostics, "count_compilations", number.__next__)
    batches: list[Any] = []
    assert measure_unseen(session, lambda make_batch: batches.append(make_batch()) or len(batches)) == 3
    monkeypatch.setattr(diagnostics, "count_compilations", iter(range(99)).__next__)  # every batch compiles
    assert measure_unseen(session, lambda make_batch: 0) is None
    assert len(batches) == 3 and session.unseen.take() is None and NUM_UNSEEN > 3


def test_waits_are_looked_for_in_whole_steps_of_either_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order on a GPU: nothing compiled, then as the cell runs it, each once on one batch and with its update."""
    session = open_line(Recipe(execution="compiled", backend="eager", compile_step=False))
    session.train()
    calls: list[str] = []
    plain, step = session.workload.model.forward, session.stepper.optimizer.step
    monkeypatch.setattr(session.module, "_forward", (lambda x: [calls.append("compiled"), plain(x)][1],))
    monkeypatch.setattr(session.workload.model, "forward", lambda x: [calls.append("plain"), plain(x)][1])
    monkeypatch.setattr(session.stepper.optimizer, "step", lambda: [calls.append("update"), step()][1])
    monkeypatch.setattr(diagnostics, "audit_device", lambda run: [run(), {f"line:{len(calls)}": 2}][1])
    monkeypatch.setattr(Session, "device", torch.device("cuda", 0))
    monkeypatch.setattr(diagnostics, "make_running_loss", lambda recipe, device: make_running_loss(recipe, CPU))
    evidence = add_syncs(Evidence(), session)
    assert calls == ["plain", "update", "compiled", "update"]
    assert (evidence.counters["eager_syncs_per_step"], evidence.counters["syncs_per_step"]) == (2, 2)
    assert (evidence.eager_sync_sources, evidence.sync_sources) == ({"line:2": 2}, {"line:4": 2})


def event(name: str, start_us: float, end_us: float, device: DeviceType = DeviceType.CPU, **more: Any) -> FunctionEvent:
    """An event as `torch.profiler` gives it."""
    return FunctionEvent(id=0, name=name, thread=1, start_us=start_us, end_us=end_us, device_type=device, **more)


CUDA = DeviceType.CUDA
EVENTS = [
    event("ablate.loader", 0, 40),
    event("ablate.forward", 100, 300),
    event("aten::mm", 105, 110),
    event("gemm", 120, 200, CUDA),
    event("ablate.encoding", 110, 210),
    event("relu", 220, 240, CUDA),
    event("ablate.forward", 120, 240, CUDA, is_user_annotation=True),  # the same mark, on the device's time line
    event("cudaDeviceSynchronize", 240, 299),
    event("ablate.backward", 300, 600),
    event("## Call CompiledFxGraph ##", 310, 580, CUDA, is_user_annotation=True),
    event("gemm", 320, 420, CUDA),  # started by autograd's thread
    event("gemm", 450, 550, CUDA),
    event("ablate.step", 600, 700),
    event("Memcpy HtoD", 800, 900, CUDA),  # between two stages: nobody's
]


def test_on_a_gpu_a_stage_is_what_the_device_did_between_its_ends() -> None:
    found = sum_stages(EVENTS, on_gpu=True)
    assert found == pytest.approx(
        {"loader": 40e-6, "forward": 100e-6, "encoding": 80e-6, "backward": 200e-6, "step": 0.0}
    )


def test_on_a_cpu_a_stage_is_the_time_between_its_ends() -> None:
    found = sum_stages([*EVENTS, event("ablate.step", 1000, 1001)], on_gpu=False)
    assert found == pytest.approx(
        {"loader": 40e-6, "forward": 200e-6, "encoding": 100e-6, "backward": 300e-6, "step": 101e-6}
    )


def test_the_device_is_waited_for_at_both_ends_of_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    from ablate.train.observe import stage_profile

    waits: list[torch.device] = []
    monkeypatch.setattr(stage_profile, "synchronize", waits.append)
    with stage_profile.Stage("copy", torch.device("cuda", 0)):
        assert len(waits) == 1
    assert waits == [torch.device("cuda", 0)] * 2
