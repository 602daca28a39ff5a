"""What only a GPU shows: waits by line, recordings, the learning rate on the device, copies that do not wait."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ablate.core.evidence import Evidence
from ablate.core.recipe import Recipe
from ablate.core.request import ProbeRequest
from ablate.core.study import LoaderOptions, Study, Timing
from ablate.optimizations.guide import no_cuda_graphs
from ablate.records.store import write_json
from ablate.train.observe.diagnostics import add_syncs
from ablate.train.observe.stage_profile import add_stages
from ablate.train.observe.sync_audit import audit_device
from ablate.train.probe import execute_probe
from ablate.train.session import Session, open_session
from ablate.workloads.relational.data.stream import BatchDataset
from real_parts import tiny_study

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
CHURN = "hm/user-churn"
FREE = Recipe(
    execution="compiled",
    forward_dynamic=True,
    lr_kind="tensor",
    model={"keys": "string"},
    metric_policy="on-device",
    mean_metric="on-device",
)


def gpu_study() -> Study:
    return replace(tiny_study(CHURN, loader=LoaderOptions(pin_memory=True)), device="cuda")


def open_tiny(recipe: Recipe) -> Session:
    return open_session(gpu_study(), CHURN, recipe, seed=0, device=torch.device("cuda", 0))


def train(recipe: Recipe) -> Evidence:
    torch._dynamo.reset()
    session = open_tiny(recipe)
    session.train()
    assert torch.isfinite(session.module.losses).all()
    evidence = session.watch.collect(compiled=recipe.execution == "compiled")
    return add_stages(add_syncs(evidence, session), session)


def test_a_wait_is_found_with_its_line():
    x = torch.ones(3, device="cuda")
    sources = audit_device(lambda: x.sum().item())
    assert sum(sources.values()) == 1 and "test_gpu.py:" in next(iter(sources))
    assert audit_device(lambda: x.sum()) == {}
    assert torch.cuda.get_sync_debug_mode() == 0  # as it was


def test_a_batch_that_repeats_is_recorded_and_the_default_mode_records_nothing(monkeypatch):
    batch_of = BatchDataset.__getitem__
    monkeypatch.setattr(BatchDataset, "__getitem__", lambda self, index: batch_of(self, 0))  # a new size only warms up
    info = no_cuda_graphs.INFO
    off, on = (FREE.with_changes(info.levels[level].changes) for level in (info.off_level("guide"), info.on))
    assert train(off).counters["cudagraph_recordings"] > 0
    assert train(on).counters["cudagraph_recordings"] == 0


def test_looking_afterwards_records_no_graph_that_training_would_not():
    torch._dynamo.reset()
    level = no_cuda_graphs.INFO.off_level("guide")
    session = open_tiny(FREE.with_changes(no_cuda_graphs.INFO.levels[level].changes))
    session.train()
    before = session.watch.collect(compiled=True).counters["cudagraph_recordings"]
    add_stages(add_syncs(Evidence(), session), session)
    assert session.watch.collect(compiled=True).counters["cudagraph_recordings"] == before


def test_batches_come_page_locked_and_leave_for_the_device():
    session = open_tiny(FREE)
    assert session.stream.pinned and session.trainer.strategy.root_device == torch.device("cuda", 0)
    batch = next(iter(session.stream))
    tensors = [batch[name].n_id for name in batch.node_types]
    assert all(tensor.is_pinned() for tensor in tensors)
    moved = session.parts.move(batch, non_blocking=True)
    assert all(moved[name].n_id.is_cuda for name in moved.node_types)


def test_a_diagnosis_trains_on_the_device(tmp_path):
    study = replace(gpu_study(), timing=Timing(epochs=1, steps_per_epoch=3, horizon_epochs=1))
    write_json(tmp_path / "study.json", study)
    request = ProbeRequest(
        study_json=str(tmp_path / "study.json"), recipe=Recipe(), result_json=str(tmp_path / "result.json"),
        device_index=0,
    )  # fmt: skip
    result = execute_probe(request)
    assert result.failure is None and result.evidence.counters["syncs_per_step"] > 0


def test_syncs_are_fewer_with_sync_free_on():
    syncing = train(replace(FREE, metric_policy="syncing", mean_metric="validating"))
    free = train(FREE)
    assert free.counters["syncs_per_step"] <= syncing.counters["syncs_per_step"] - 3
    assert not any("running_loss" in line or "aggregation" in line for line in free.sync_sources)


def test_copies_that_do_not_wait():
    waiting, free = train(FREE), train(replace(FREE, copy_policy="non-blocking"))
    assert free.counters["syncs_per_step"] < waiting.counters["syncs_per_step"]


def test_a_rate_on_the_device_compiles_the_step_once():
    evidence = train(replace(FREE, lr_kind="device-tensor"))
    assert evidence.counters["compiles.optimizer_step"] == 1
    assert not any("optimizer.py" in line for line in evidence.sync_sources)


def test_stages_are_device_time():
    stages = train(replace(FREE, execution="eager", lr_kind="float")).stages
    assert stages["encoding"] > 0 and stages["backward"] > 0 and stages["copy"] > 0


def test_waits_are_counted_in_one_way_with_and_without_the_compiler():
    evidence = train(FREE)
    assert sum(evidence.sync_sources.values()) == evidence.counters["syncs_per_step"]
    assert sum(evidence.eager_sync_sources.values()) == evidence.counters["eager_syncs_per_step"]
    assert evidence.counters["eager_syncs_per_step"] >= evidence.counters["syncs_per_step"] > 0  # copies wait in both
