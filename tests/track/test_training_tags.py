"""Verdicts in `results.json` -> tags of the study's MLflow run."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import Results, WorkloadResults
from ablate.analysis.results.training import Side, Training, TrainingVerdict, TrainingWord
from ablate.core.errors import StoredDataError
from ablate.files.paths import StudyPaths
from ablate.records.store import write_json
from ablate.track.sync import sync_study
from ablate.track.upload import training_tags
from builders import make_study


def verdict(subject: str, word: TrainingWord, side: Side = "arm") -> TrainingVerdict:
    return TrainingVerdict(side=side, subject=subject, verdict=word, reason="omitted")


def write_results(paths: StudyPaths, workloads: dict[str, list[TrainingVerdict]]) -> None:
    found = tuple(
        WorkloadResults(name=name, title="", speed=Speed(horizon_epochs=1), training=Training(verdicts=tuple(rows)))
        for name, rows in workloads.items()
    )
    write_json(paths.results_json, Results(study=make_study(), study_hash="", num_cells=0, num_keys=0, workloads=found))


def test_arms_by_verdict_per_workload(tmp_path: Path) -> None:
    paths = StudyPaths.of("tags", runs=tmp_path, reports=tmp_path)
    assert training_tags(paths) == {}
    churn = [
        verdict("naive", "different"),
        verdict("full", "equivalent"),
        verdict("without-x", "equivalent"),
        verdict("x", "different", side="optimization"),
    ]
    write_results(paths, {"hm/user-churn": churn, "odd name!": [verdict("full", "not tested")], "none": []})
    assert training_tags(paths) == {
        "ablate.training.hm/user-churn": "different: naive; equivalent: full, without-x",
        "ablate.training.odd name_": "not tested: full",
    }
    paths.results_json.write_text("{")
    with pytest.raises(StoredDataError, match=r"results\.json cannot be read"):
        training_tags(paths)


def test_the_study_carries_them(make_study_on_disk, store_uri):
    on_disk = make_study_on_disk()
    on_disk.write_all()
    write_results(on_disk.paths, {"hm/user-churn": [verdict("full", "equivalent")]})
    outcome = sync_study(on_disk.paths, store_uri)
    run = MlflowClient(store_uri).get_run(outcome.parent_run_id)
    assert run.data.tags["ablate.training.hm/user-churn"] == "equivalent: full"
    on_disk.paths.results_json.write_text("{")
    assert "results.json cannot be read" in sync_study(on_disk.paths, store_uri).problem
