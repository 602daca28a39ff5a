"""A stage after the training that fails: what the training measured stays, and the record names the stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ablate.core.recipe import Recipe
from ablate.core.record import TrialRecord
from ablate.core.request import TRAINED_NAME, TrialRequest
from ablate.core.study import WorkloadChoice
from ablate.design.cells import make_design
from ablate.plugins.registry import load_file
from ablate.records.store import read_predictions, read_record, read_series, write_json
from ablate.train import trial as trial_module
from ablate.train.trial import execute_trial
from ablate.workloads import mlp
from real_parts import line_study


def run(folder: Path, **adapt: str) -> TrialRecord:
    """Train the perceptron of `ablate init` for 8 steps, eagerly."""
    path = str(mlp.__file__)
    choice = WorkloadChoice(info=load_file(Path(path)).INFO, options={"validation_rows": 20}, path=path)
    study = line_study(workloads=(choice,))
    write_json(folder / "study.json", study)
    planned = next(t for t in make_design(study).trials if "eager" in t.cell.arms)
    request = TrialRequest(
        study_json=str(folder / "study.json"), trial=planned, recipe=Recipe(adapt=adapt), attempt=1,
        record_folder=str(folder), cache_state="not-compiled",
    )  # fmt: skip
    execute_trial(request)
    return read_record(folder)


def break_prediction(parts: Any) -> None:
    def predict(to_device: Any) -> None:
        parts.workload.model.eval()
        raise RuntimeError("planted")

    parts.workload.predict = predict


def test_a_prediction_that_raises_costs_the_predictions_only(tmp_path):
    whole = run(tmp_path / "whole")
    record = run(tmp_path / "broken", broken=f"{__name__}:break_prediction")
    assert (whole.status, whole.failed_after) == ("completed", ()) and whole.metric is not None
    assert record.status == "completed" and record.failure is None
    assert [(f.stage, f.reason) for f in record.failed_after] == [("prediction", "RuntimeError: planted")]
    assert "Traceback" in record.failed_after[0].traceback
    assert record.times is not None and len(record.times.epoch_s) == 2 and record.times.steady_s is not None
    assert read_series(tmp_path / "broken").loss.tolist() == read_series(tmp_path / "whole").loss.tolist()
    assert record.final_loss == whole.final_loss and record.data == whole.data
    assert record.metric is None and read_predictions(tmp_path / "broken").empty
    # the stages after it go on, with the model in training mode again
    assert record.evidence.counters == pytest.approx(whole.evidence.counters)
    assert set(record.evidence.stages) == set(whole.evidence.stages) >= {"forward", "backward"}
    assert not (tmp_path / "broken" / TRAINED_NAME).exists()


@pytest.mark.parametrize(
    ("function", "stage"),
    [("describe_machine", "machine"), ("add_counters", "counters"), ("add_syncs", "audit"), ("add_stages", "profile")],
)
def test_every_later_stage_may_fail(tmp_path, monkeypatch, function, stage):
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(trial_module, function, fail)
    record = run(tmp_path)
    assert record.completed and record.times is not None and record.metric is not None
    assert [(f.stage, f.reason) for f in record.failed_after] == [(stage, "ValueError: planted")]


def test_compiler_evidence_that_cannot_be_read_costs_no_time(tmp_path, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("get_manager() got an unexpected keyword argument")

    monkeypatch.setattr("ablate.train.observe.compile_watch.CompileWatch.collect", fail)
    record = run(tmp_path)
    assert record.completed and record.times is not None and record.times.compile_s == 0.0
    assert [f.stage for f in record.failed_after] == ["evidence"] and record.evidence.events == ()


def test_a_full_disk_is_still_nobodys_result(tmp_path, monkeypatch):
    from ablate.core.errors import DiskError

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trial_module, "add_stages", fail)
    with pytest.raises(DiskError):
        run(tmp_path)
    assert not (tmp_path / "record.json").exists()
