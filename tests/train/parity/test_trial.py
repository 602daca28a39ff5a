"""Parity trials through the request that a trial's process gets: files, record, and what goes wrong in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.core.record import TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.study import Equivalence
from ablate.design.cells import make_design
from ablate.records.store import read_parity, read_predictions, read_record, read_series, write_json
from ablate.train.trial import execute_trial
from real_parts import tiny_graph, tiny_study

CHURN, PURCHASE = "hm/user-churn", "hm/user-item-purchase"


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(
    folder: Path,
    arm: str,
    *,
    purpose: str = "parity",
    reference: Path | None = None,
    workload: str = CHURN,
    recipe: Recipe | None = None,
    **training: object,
) -> TrialRecord:
    """Execute a trial of a study with windows at steps 0 and 4 of eight."""
    tiny_graph()
    equivalence = Equivalence(
        parity="all",
        windows=(0, "middle"),
        window_steps=4,
        reruns=2,
        margin={"hm/user-churn": 0.01},
        metric_margin={"hm/user-churn": 0.02},
    )
    study = replace(tiny_study(workload, **training), equivalence=equivalence, compile_backend="eager")
    write_json(folder / "study.json", study)
    design = make_design(study)
    trial = next(t for t in (design.parity if purpose == "parity" else design.trials) if arm in t.cell.arms)
    execute_trial(
        TrialRequest(
            study_json=str(folder / "study.json"),
            trial=trial,
            recipe=recipe or Recipe(),
            attempt=1,
            record_folder=str(folder / arm),
            cache_state="not-compiled",
            reference_folder=None if reference is None else str(reference),
        )
    )
    return read_record(folder / arm)


def test_eager_leaves_checkpoints_series_predictions_and_a_record_without_times(tmp_path):
    record = run(tmp_path, "eager")
    assert record.status == "completed" and record.failure is None and record.times is None and record.metric is None
    assert record.identity.purpose == "parity" and record.margins == {"loss": 0.01, "metric": 0.02}
    assert record.parity.deterministic is True
    assert [(w.start, w.num_steps, w.masks, w.note) for w in record.parity.windows] == [
        (0, 4, "aligned", ""),
        (4, 4, "aligned", ""),
    ]
    assert record.precision["weights"] == "float32"
    assert record.data.num_steps == 8 and record.peak_memory_gib > 0.1
    assert sorted(p.name for p in (tmp_path / "eager" / "checkpoints").iterdir()) == [
        "step-000000.pt",
        "step-000004.pt",
    ]
    series = read_parity(tmp_path / "eager")
    assert len(series) == 4 * 8 and set(series.run) == {"eager", "repeat", "ulp-1", "ulp-2"}
    assert series[series.run == "eager"].step.tolist() == list(range(8))
    assert (series.weights.dtype, series["mask"].dtype) == (np.int64, np.int64)
    predictions = read_predictions(tmp_path / "eager")
    assert set(predictions.run) == {"eager", "repeat", "ulp-1", "ulp-2"} and set(predictions["rank"]) == {0}
    assert len(read_series(tmp_path / "eager")) == 0


def test_an_eager_arm_restarts_from_the_reference_and_equals_it(tmp_path):
    run(tmp_path, "eager", workload=PURCHASE)
    record = run(
        tmp_path,
        "full",
        reference=tmp_path / "eager",
        workload=PURCHASE,
        recipe=Recipe(model={"keys": "string"}, metric_policy="on-device"),
    )
    assert record.status == "completed" and record.parity.deterministic is None and record.margins == {}
    eager, arm = (read_parity(tmp_path / name) for name in ("eager", "full"))
    eager = eager[eager.run == "eager"].reset_index(drop=True)
    assert set(arm.run) == {"arm"}
    for column in ("window", "step", "loss", "grad_norm", "lr", "weights", "mask"):
        assert arm[column].tolist() == eager[column].tolist()
    predictions = {name: read_predictions(tmp_path / name) for name in ("eager", "full")}
    first = predictions["eager"][predictions["eager"].run == "eager"]
    assert predictions["full"].value.tolist() == first.value.tolist()
    assert predictions["full"]["rank"].max() == 11  # twelve articles a customer


def explode(session) -> None:
    """The second loss of all is infinite."""
    loss, calls = session.workload.loss, []

    def infinite(forward, batch):
        calls.append(batch)
        return loss(forward, batch) + (float("inf") if len(calls) == 2 else 0.0)

    session.workload.loss = infinite


def test_an_arm_that_becomes_infinite_is_recorded_with_its_step_and_window(tmp_path):
    run(tmp_path, "eager")
    record = run(tmp_path, "full", reference=tmp_path / "eager", recipe=Recipe(adapt={"broken": f"{__name__}:explode"}))
    assert record.status == "non-finite"
    assert record.failure.reason == "the loss is inf at step 1 (window from step 0)"
    assert [(w.start, w.num_steps) for w in record.parity.windows] == [(0, 2), (4, 4)]
    assert read_parity(tmp_path / "full").step.tolist() == [0, 1, 4, 5, 6, 7]
    assert len(read_predictions(tmp_path / "full")) == 0


def test_a_checkpoint_that_is_missing_or_damaged_fails_the_arm_with_a_sentence(tmp_path):
    run(tmp_path, "eager")
    path = tmp_path / "eager" / "checkpoints" / "step-000004.pt"
    path.write_bytes(path.read_bytes()[:100])
    record = run(tmp_path, "full", reference=tmp_path / "eager")
    assert record.status == "failed" and record.parity is None
    assert record.failure.reason.startswith(f"{path} cannot be read (")
    assert record.failure.reason.endswith("train its eager reference again")
    path.unlink()
    assert run(tmp_path, "full", reference=tmp_path / "eager").failure.reason.startswith(f"{path} is missing")
    assert "names no record folder of its eager reference" in run(tmp_path, "full").failure.reason


def test_a_timed_trial_writes_its_predictions_and_the_margins(tmp_path):
    record = run(tmp_path, "eager", purpose="timed")
    assert record.identity.purpose == "timed" and record.parity is None
    assert record.margins == {"loss": 0.01, "metric": 0.02}
    predictions = read_predictions(tmp_path / "eager")
    assert set(predictions.run) == {"timed"} and len(predictions) == record.metric.num_rows
    assert predictions.row.tolist() == list(range(record.metric.num_rows))
