"""A workload that is nobody's: no data, nothing to judge, no edge cases; and what recipes do to any of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ablate.core.errors import UserError
from ablate.core.recipe import TORCH_SETTINGS, Recipe
from ablate.core.request import TrialRequest
from ablate.core.study import Equivalence, Factor, LoaderOptions, Study
from ablate.design.cells import make_design
from ablate.optimizations.beyond import deterministic
from ablate.records.store import read_record, read_series, write_json
from ablate.train.clock import StepClock
from ablate.train.observe.environment import describe_precision, end_training
from ablate.train.probe import try_hazards
from ablate.train.session import apply_settings
from ablate.train.trial import execute_trial
from real_parts import LINE, line_study, open_line


def losses_of(recipe: Recipe, **changes) -> list[float]:
    session = open_line(recipe, **changes)
    session.train()
    return session.module.losses.tolist()


def run(folder: Path, study: Study, purpose: str) -> tuple:
    write_json(folder / "study.json", study)
    design = make_design(study)
    trials = design.parity if purpose == "parity" else design.trials
    trial = next(t for t in trials if "eager" in t.cell.arms)
    request = TrialRequest(
        study_json=str(folder / "study.json"),
        trial=trial,
        recipe=Recipe(),
        attempt=1,
        record_folder=str(folder),
        cache_state="not-compiled",
    )
    execute_trial(request)
    return read_record(folder), read_series(folder)


def test_it_is_trained_and_recorded_without_a_metric_or_predictions(tmp_path):
    study = line_study()
    record, series = run(tmp_path, study, "timed")
    assert record.status == "completed" and record.metric is None and len(series) == 8
    assert series.lr.iloc[0] == 0.01  # the workload's own
    identity = study.workload(LINE).identity
    assert (record.data.dataset, record.data.dataset_digest) == (LINE, identity)
    assert record.identity.workload_digest == identity and record.environment.workload == {}
    assert not (tmp_path / "predictions.parquet").exists()


def test_its_parity_trial_needs_no_predictions_either(tmp_path):
    study = line_study(equivalence=Equivalence(parity="all", windows=(0,), window_steps=4, reruns=1))
    record, _ = run(tmp_path, study, "parity")
    assert record.status == "completed" and record.parity.deterministic
    assert [w.masks for w in record.parity.windows] == ["aligned"]
    assert not (tmp_path / "predictions.parquet").exists()


def test_an_optimization_counts_its_own_evidence_in_every_cell(tmp_path):
    info = deterministic.INFO
    factor = Factor(info=info, off_means="today", off=info.off["today"], on=info.on)
    record, _ = run(tmp_path, line_study(factors=(factor,)), "timed")
    assert record.evidence.counters["deterministic_algorithms"] == 0.0


def test_a_study_for_a_gpu_fails_with_one_sentence_where_torch_sees_none(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    record, _ = run(tmp_path, line_study(device="cuda"), "timed")
    assert (record.status, record.times) == ("failed", None)
    assert record.failure.reason == f"the study wants a GPU, but torch {torch.__version__} sees none"


def test_memory_that_was_reserved_is_recorded_beside_what_tensors_took(tmp_path, monkeypatch):
    record, _ = run(tmp_path, line_study(), "timed")
    assert (record.peak_device_memory_gib, record.peak_reserved_memory_gib) == (None, None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 2**29)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 2**31)
    ended = end_training(record, torch.device("cuda", 0), None)
    assert (ended.peak_device_memory_gib, ended.peak_reserved_memory_gib) == (0.5, 2.0)


def test_a_trial_on_a_device_records_the_times_of_both_clocks(tmp_path, monkeypatch):
    device_s = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    monkeypatch.setattr(StepClock, "step_s", property(lambda clock: device_s))
    monkeypatch.setattr(StepClock, "host_step_s", property(lambda clock: [0.01] * 8))
    record, series = run(tmp_path, line_study(), "timed")
    assert (record.times.first_step_s, record.times.step_clock) == (0.5, "device")
    assert series.step_s.tolist() == device_s and series.host_step_s.tolist() == [0.01] * 8


def test_it_has_no_edge_cases_and_cannot_be_replayed():
    assert try_hazards(open_line()) == []
    with pytest.raises(UserError, match="cannot replay its batches"):
        open_line(loader=LoaderOptions(mode="replay"))


def test_workers_see_the_same_batches():
    hashes = []
    for workers in (0, 1):
        session = open_line(loader=LoaderOptions(num_workers=workers))
        session.train()
        hashes.append(session.stream.hash)
    assert hashes[0] == hashes[1]


def test_a_fused_optimizer_trains_as_the_plain_one_does():
    plain, fused = losses_of(Recipe()), losses_of(Recipe(optimizer={"fused": True}))
    assert fused == pytest.approx(plain, rel=1e-5)
    assert open_line(Recipe(optimizer={"fused": True})).stepper.optimizer.defaults["fused"]


def test_an_argument_that_only_cuda_takes_is_left_out_on_a_cpu():
    assert losses_of(Recipe(optimizer={"capturable": True})) == losses_of(Recipe())


def test_autocast_computes_in_its_type_and_says_so():
    session = open_line(Recipe(autocast="bfloat16"))
    kinds = []
    batch = session.parts.move(session.dataset[0])

    def forward(x: torch.Tensor) -> torch.Tensor:
        out = session.workload.model(x)
        kinds.append(out.dtype)
        return out

    session.parts.loss(forward, batch)
    assert kinds == [torch.bfloat16] and describe_precision(session)["autocast"] == "bfloat16"
    assert describe_precision(open_line())["autocast"] == "off"
    assert losses_of(Recipe(autocast="bfloat16")) == pytest.approx(losses_of(Recipe()), rel=0.05)


def test_channels_last_turns_images_and_leaves_the_rest():
    parts = open_line(Recipe(memory_format="channels-last")).parts
    images, row = torch.zeros(2, 3, 4, 4), torch.zeros(2, 3)
    moved = parts.move({"images": images, "row": row})
    assert moved["images"].is_contiguous(memory_format=torch.channels_last) and not moved["images"].is_contiguous()
    assert moved["row"].is_contiguous()


def test_every_known_setting_of_torch_can_be_set():
    values = {"float32_matmul_precision": "highest", "num_threads": torch.get_num_threads()}
    for name in TORCH_SETTINGS:
        apply_settings(Recipe(torch_settings={name: values.get(name, False)}), None)
    with pytest.raises(UserError, match="is not known"):
        apply_settings(Recipe(torch_settings={"speed": True}), None)
