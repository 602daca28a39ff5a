"""Verdicts in `results.json` -> tags of the study's MLflow run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ablate.core.errors import StoredDataError
from ablate.track.sync import sync_study
from ablate.track.training import training_tags


def verdict(workload: str, subject: str, word: str, side: str = "arm") -> dict[str, str]:
    return {"workload": workload, "side": side, "subject": subject, "verdict": word, "reason": "left out"}


def test_arms_by_verdict_per_workload(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert training_tags(path) == {}
    rows = [
        verdict("hm/user-churn", "naive", "different"),
        verdict("hm/user-churn", "full", "equivalent"),
        verdict("hm/user-churn", "without-x", "equivalent"),
        verdict("hm/user-churn", "x", "different", side="optimization"),
        verdict("odd name!", "full", "not tested"),
    ]
    path.write_text(json.dumps({"format": 2, "training": rows}))
    assert training_tags(path) == {
        "ablate.training.hm/user-churn": "different: naive; equivalent: full, without-x",
        "ablate.training.odd name_": "not tested: full",
    }
    path.write_text(json.dumps({"format": 1}))
    assert training_tags(path) == {}
    path.write_text("{")
    with pytest.raises(StoredDataError, match=r"results\.json cannot be read"):
        training_tags(path)


def test_the_study_carries_them(make_study_on_disk, store_uri):
    on_disk = make_study_on_disk()
    on_disk.write_all()
    path = on_disk.paths.results_json
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"training": [verdict("hm/user-churn", "full", "equivalent")]}))
    outcome = sync_study(on_disk.paths, store_uri)
    run = MlflowClient(store_uri).get_run(outcome.parent_run_id)
    assert run.data.tags["ablate.training.hm/user-churn"] == "equivalent: full"
    path.write_text("{")
    assert "results.json cannot be read" in sync_study(on_disk.paths, store_uri).problem
