"""What a training does on a GPU: weights stay, times are the device's own, memory, an optimizer restored in place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.core.record import TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.study import LoaderOptions, Study
from ablate.design.cells import make_design
from ablate.records.store import read_record, read_series, write_json
from ablate.train.clock import warm_up
from ablate.train.parity.checkpoint import restore_checkpoint, take_checkpoint
from ablate.train.session import Session, open_session
from ablate.train.trial import execute_trial
from real_parts import tiny_graph, tiny_study

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
CHURN = "hm/user-churn"
GPU = torch.device("cuda", 0)
COMPILED = Recipe(execution="compiled", forward_dynamic=True, model={"keys": "string"})


def gpu_study() -> Study:
    tiny_graph()
    return replace(tiny_study(CHURN, loader=LoaderOptions(pin_memory=True)), device="cuda")


def open_gpu(recipe: Recipe | None = None) -> Session:
    torch._dynamo.reset()
    return open_session(gpu_study(), CHURN, recipe or Recipe(), seed=0, device=GPU)


def run(folder: Path) -> TrialRecord:
    write_json(folder / "study.json", gpu_study())
    planned = next(t for t in make_design(gpu_study()).trials if t.cell.cell.execution == "eager")
    request = TrialRequest(
        study_json=str(folder / "study.json"), trial=planned, recipe=Recipe(), attempt=1, record_folder=str(folder),
        cache_state="not-compiled", device_index=0,
    )  # fmt: skip
    execute_trial(request)
    return read_record(folder)


@pytest.mark.parametrize("recipe", [Recipe(), COMPILED], ids=["eager", "compiled"])
def test_weights_stay_on_the_device_and_predict(recipe):
    session = open_gpu(recipe)
    before = [p.data_ptr() for p in session.workload.model.parameters()]
    session.train()
    assert all(p.is_cuda for p in session.workload.model.parameters())
    assert [p.data_ptr() for p in session.workload.model.parameters()] == before
    assert session.predict() is not None and torch.isfinite(session.module.losses).all()


def test_a_whole_trial_has_device_times_and_reserved_memory(tmp_path):
    record, series = run(tmp_path), read_series(tmp_path)
    assert record.completed and record.failed_after == () and record.metric is not None
    assert record.times is not None and record.times.step_clock == "device"
    assert record.times.first_step_s == series.step_s[0]
    for epoch, seconds in enumerate(record.times.epoch_s):  # the steps of the device fill the epoch
        own = series[series.epoch == epoch]
        assert own.step_s.sum() == pytest.approx(seconds, rel=0.1)
        assert own.host_step_s.sum() <= seconds * 1.01
    assert 0 < record.peak_device_memory_gib <= record.peak_reserved_memory_gib
    assert record.environment.device == "cuda" and record.environment.cuda == torch.version.cuda
    assert record.environment.device_memory_bytes > 2**30 and "cudnn.allow_tf32" in record.precision


def test_warming_up_draws_nothing():
    before = torch.cuda.get_rng_state(GPU)
    warm_up(GPU)
    assert torch.equal(torch.cuda.get_rng_state(GPU), before)


def test_a_compiled_step_counts_on_the_device_where_it_starts_from_a_checkpoint():
    eager = open_gpu()
    eager.train()
    checkpoint = take_checkpoint(eager.workload.model, eager.stepper.optimizer, 8)
    session = open_gpu(COMPILED)
    restore_checkpoint(checkpoint, session.workload.model, session.stepper.optimizer, compiled=True)
    optimizer = session.stepper.optimizer
    assert all(group["capturable"] for group in optimizer.param_groups)
    assert {state["step"].device.type for state in optimizer.state.values()} == {"cuda"}
    before = {float(state["step"]) for state in optimizer.state.values()}
    batch = session.parts.move(session.dataset[0])
    session.module.compute_loss(batch).backward()
    session.stepper.step()
    assert {float(state["step"]) for state in optimizer.state.values()} == {1 + step for step in before} == {9.0}
