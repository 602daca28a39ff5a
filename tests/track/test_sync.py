"""A study on disk -> MLflow: what arrives, and that a second sync changes nothing."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ablate.analysis.results.study import Results
from ablate.core.errors import UserError
from ablate.core.record import Failure
from ablate.core.study import Equivalence
from ablate.records.store import write_json
from ablate.track.sync import Tracker, sync_study
from builders import make_study

START_MS = 1767225600000


def runs_of(uri, kind, *, view=1):
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("hm-tiny")
    return client.search_runs([experiment.experiment_id], f"tags.`ablate.kind` = '{kind}'", run_view_type=view)


def history_lengths(uri):
    client = MlflowClient(uri)
    return {
        (run.info.run_id, name): len(client.get_metric_history(run.info.run_id, name))
        for run in runs_of(uri, "trial")
        for name in run.data.metrics
    }


def write_report(on_disk, num_cells=0):
    folder = on_disk.paths.report
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    results = Results(study=make_study(), study_hash="", num_cells=num_cells, num_keys=0)
    write_json(on_disk.paths.results_json, results)
    (folder / "figures" / "loss.svg").write_text("<svg/>")
    (folder / "report.pdf").write_bytes(b"%PDF")


def test_one_parent_and_a_child_per_trial(on_disk, store_uri):
    on_disk.write_all()
    write_report(on_disk)
    lines = []
    outcome = sync_study(on_disk.paths, store_uri, report=lines.append)
    assert (outcome.num_trials, outcome.num_new, outcome.problem) == (6, 6, None)
    assert outcome.experiment == "hm-tiny"
    assert len(lines) == 6
    (parent,) = runs_of(store_uri, "study")
    children = runs_of(store_uri, "trial")
    assert parent.info.run_id == outcome.parent_run_id
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["ablate.trials"] == "6 of 6"
    assert parent.data.tags["mlflow.note.content"] == r"Does \*it\* help?"
    assert parent.data.params["optimizations.beta"] == "both (off guide: old, on: yes, emulation: emulates 2023)"
    assert parent.data.params["hm/user-churn.channels"] == "8"
    assert sorted(run.info.run_name for run in children) == [
        "eager b0", "eager b1", "full b0", "full b1", "naive b0", "naive b1"
    ]  # fmt: skip
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}


def test_values_arrive_as_recorded(on_disk, store_uri):
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    client = MlflowClient(store_uri)
    run = next(run for run in runs_of(store_uri, "trial") if run.info.run_name == "full b1")
    assert run.info.status == "FINISHED"
    assert (run.info.start_time, run.info.end_time) == (START_MS, START_MS + 10_000)
    assert run.data.params["arm"] == "full"
    assert run.data.params["alpha"] == "yes"
    assert run.data.metrics["horizon_s"] == 17.0
    assert run.data.metrics["roc_auc"] == 0.625
    assert run.data.tags["ablate.uploaded"] == "complete"
    loss = client.get_metric_history(run.info.run_id, "loss")
    assert [(m.step, m.timestamp - START_MS) for m in loss] == [(i, 500 * (i + 1)) for i in range(6)]
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert names == {"record.json", "series.parquet", "stderr.txt"}


def test_a_second_sync_adds_nothing(on_disk, store_uri):
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    before = history_lengths(store_uri)
    again = sync_study(on_disk.paths, store_uri)
    assert (again.num_trials, again.num_new) == (6, 0)
    assert len(runs_of(store_uri, "study")) == 1
    assert len(runs_of(store_uri, "trial")) == 6
    assert history_lengths(store_uri) == before


def test_a_half_uploaded_run_is_completed_in_place(on_disk, store_uri):
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    before = history_lengths(store_uri)
    client = MlflowClient(store_uri)
    half = runs_of(store_uri, "trial")[0].info.run_id
    client.delete_tag(half, "ablate.uploaded")
    client.update_run(half, status="RUNNING")
    assert sync_study(on_disk.paths, store_uri).num_new == 1
    assert client.get_run(half).info.status == "FINISHED"
    assert history_lengths(store_uri) == before


def test_failed_and_killed_trials_say_why(on_disk, store_uri):
    first, second = on_disk.design.trials[:2]
    on_disk.write_trial(
        first, status="failed", failure=Failure(reason="out of memory: 'x' <b>"), times=None, metric=None
    )
    on_disk.write_trial(second, status="killed", failure=Failure(reason="signal 9"))
    sync_study(on_disk.paths, store_uri)
    by_key = {run.data.tags["ablate.trial_key"]: run for run in runs_of(store_uri, "trial")}
    assert by_key[first.key].info.status == "FAILED"
    assert by_key[first.key].data.tags["ablate.reason"] == "out of memory: 'x' <b>"
    assert r"\<b\>" in by_key[first.key].data.tags["mlflow.note.content"]
    assert by_key[second.key].info.status == "KILLED"
    (parent,) = runs_of(store_uri, "study")
    assert parent.info.status == "SCHEDULED"
    assert parent.data.tags["ablate.trials"] == "2 of 6"
    assert parent.data.tags["ablate.trials_not_completed"] == "2"


def test_trials_can_arrive_one_by_one(on_disk, store_uri):
    tracker = Tracker(on_disk.paths, store_uri)
    for trial in on_disk.design.trials[:2]:
        outcome = tracker.sync_trial(on_disk.write_trial(trial))
        assert (outcome.num_new, outcome.problem) == (1, None)
    (parent,) = runs_of(store_uri, "study")
    assert parent.info.status == "RUNNING"
    assert tracker.sync_trial(on_disk.write_trial(on_disk.design.trials[0])).num_new == 0
    on_disk.write_all()
    assert tracker.sync_study().num_new == 4
    assert runs_of(store_uri, "study")[0].info.status == "FINISHED"


def test_a_run_without_record_is_set_killed(on_disk, store_uri):
    folders = on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    client = MlflowClient(store_uri)
    key = json.loads((folders[0] / "record.json").read_text())["identity"]["key"]
    lost = next(run for run in runs_of(store_uri, "trial") if run.data.tags["ablate.trial_key"] == key)
    client.delete_tag(lost.info.run_id, "ablate.uploaded")
    client.update_run(lost.info.run_id, status="RUNNING")
    shutil.rmtree(folders[0])
    sync_study(on_disk.paths, store_uri)
    assert client.get_run(lost.info.run_id).info.status == "KILLED"


def test_a_trial_executed_anew_replaces_its_run(on_disk, store_uri):
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    trial = on_disk.design.trials[0]
    on_disk.write_trial(trial, final_loss=0.5)
    assert sync_study(on_disk.paths, store_uri).num_new == 1
    shown = [run for run in runs_of(store_uri, "trial") if run.data.tags["ablate.trial_key"] == trial.key]
    assert [run.data.metrics["final_loss"] for run in shown] == [0.5]
    assert len(runs_of(store_uri, "trial", view=2)) == 1  # the older one lies in the trash


def test_the_report_is_sent_again_only_when_it_changed(on_disk, store_uri):
    on_disk.write_all()
    write_report(on_disk)
    sync_study(on_disk.paths, store_uri)
    client = MlflowClient(store_uri)
    (parent,) = runs_of(store_uri, "study")
    run_id = parent.info.run_id
    assert {item.path for item in client.list_artifacts(run_id)} == {
        "report", "spec.yaml", "study.json", "design.json"
    }  # fmt: skip
    assert {item.path for item in client.list_artifacts(run_id, "report")} == {
        "report/figures", "report/report.pdf", "report/results.json"
    }  # fmt: skip
    digest = parent.data.tags["ablate.report_digest"]
    sync_study(on_disk.paths, store_uri)
    assert client.get_run(run_id).data.tags["ablate.report_digest"] == digest
    write_report(on_disk, num_cells=2)
    sync_study(on_disk.paths, store_uri)
    assert client.get_run(run_id).data.tags["ablate.report_digest"] != digest
    sent = Path(client.download_artifacts(run_id, "report/results.json"))
    assert json.loads(sent.read_text())["num_cells"] == 2


def test_a_corrupt_record_does_not_stop_the_others(on_disk, store_uri):
    folders = on_disk.write_all()
    (folders[0] / "record.json").write_text("{")
    (folders[1] / "series.parquet").write_bytes(b"PAR1")
    outcome = sync_study(on_disk.paths, store_uri)
    assert outcome.num_new == 4
    assert str(folders[0]) in outcome.problem and str(folders[1]) in outcome.problem


def test_a_dead_server_costs_seconds_and_says_what_to_do(on_disk):
    on_disk.write_all()
    began = time.monotonic()
    outcome = sync_study(on_disk.paths, "http://127.0.0.1:9")
    assert time.monotonic() - began < 15
    assert outcome.problem == (
        f"tracking server http://127.0.0.1:9 does not answer; trials are safe in {on_disk.paths.records}; "
        "run `ablate sync studies/hm-tiny.yaml` later"
    )
    assert outcome.parent_run_id is None


def test_after_a_failure_the_next_trial_does_not_wait(on_disk, monkeypatch):
    calls = []
    monkeypatch.setattr("ablate.track.sync.server_answers", lambda uri: calls.append(uri))
    tracker = Tracker(on_disk.paths, "http://127.0.0.1:9")
    for trial in on_disk.design.trials[:3]:
        assert "does not answer" in tracker.sync_trial(on_disk.write_trial(trial)).problem
    assert calls == ["http://127.0.0.1:9"]


def test_a_broken_store_is_a_problem_not_a_crash(on_disk, tmp_path):
    on_disk.write_all()
    (tmp_path / "broken.db").write_bytes(b"this is no database, " * 200)
    outcome = sync_study(on_disk.paths, f"sqlite:///{tmp_path}/broken.db")
    assert "refused" in outcome.problem and "\n" not in outcome.problem


def test_a_trashed_experiment_says_how_to_restore_it(on_disk, store_uri):
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    client = MlflowClient(store_uri)
    experiment = client.get_experiment_by_name("hm-tiny").experiment_id
    client.delete_experiment(experiment)
    assert f"mlflow experiments restore -x {experiment}" in sync_study(on_disk.paths, store_uri).problem


def test_no_study_is_the_users_error(tmp_path):
    from ablate.files.paths import StudyPaths

    with pytest.raises(UserError, match="ablate run"):
        sync_study(StudyPaths.of("nothing", runs=tmp_path, reports=tmp_path))


def filters_of_the_readme():
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    table = text.partition("| you want | filter |")[2].partition("\n\n")[0]
    cells = [line.rpartition(" | ")[2].rstrip(" |") for line in table.splitlines()[2:]]
    return [cell.strip("`") if not cell.startswith("``") else cell[2:-2] for cell in cells]


def test_the_filters_of_the_readme_work(on_disk, store_uri):
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    client = MlflowClient(store_uri)
    experiment = client.get_experiment_by_name("hm-tiny").experiment_id
    found = {text: len(client.search_runs([experiment], text)) for text in filters_of_the_readme()}
    assert len(found) == 12
    assert found['tags.`ablate.purpose` = "parity"'] == 0
    assert found['tags.`ablate.kind` = "trial"'] == 6
    assert found['params.arm = "full"'] == 2
    assert found['params.workload = "hm/user-churn" AND params.execution = "compiled"'] == 4
    assert found['params.block = "0"'] == 3
    assert found["metrics.startup_s > 60"] == 0


def test_parity_trials_are_runs_apart_from_the_timed_ones(make_study_on_disk, store_uri):
    on_disk = make_study_on_disk(equivalence=Equivalence(arms=("full",)))
    on_disk.write_all()
    eager, full = on_disk.design.parity
    on_disk.write_trial(eager, times=None)
    sync_study(on_disk.paths, store_uri)
    (parent,) = runs_of(store_uri, "study")
    tags = parent.data.tags
    assert (tags["ablate.trials"], tags["ablate.parity_trials"]) == ("6 of 6", "1 of 2")
    assert parent.info.status == "SCHEDULED"
    on_disk.write_trial(full, times=None)
    assert sync_study(on_disk.paths, store_uri).num_new == 1
    parity = [run for run in runs_of(store_uri, "trial") if run.data.tags["ablate.purpose"] == "parity"]
    assert sorted(run.data.params["arm"] for run in parity) == ["parity eager", "parity full"]
    assert {run.data.tags["ablate.arms"] for run in parity} == {"eager", "full, ladder-2"}
    assert not any("steady_s" in run.data.metrics for run in parity)
    timed = MlflowClient(store_uri).search_runs([parent.info.experiment_id], 'params.arm = "full"')
    assert len(timed) == 2
    assert runs_of(store_uri, "study")[0].info.status == "FINISHED"


def test_another_workload_is_told_by_the_parent(make_study_on_disk, store_uri):
    """Params are for ever, so what a study can grow by is a tag."""
    on_disk = make_study_on_disk()
    on_disk.write_all()
    sync_study(on_disk.paths, store_uri)
    assert runs_of(store_uri, "study")[0].data.tags["ablate.workloads"] == "hm/user-churn"
    more = replace(on_disk.study.workloads[0], info=replace(on_disk.study.workloads[0].info, name="hm/more"))
    longer = replace(on_disk.study, workloads=(*on_disk.study.workloads, more))
    write_json(on_disk.paths.study_json, longer)
    assert sync_study(on_disk.paths, store_uri).problem is None
    (parent,) = runs_of(store_uri, "study")
    assert parent.data.tags["ablate.workloads"] == "hm/user-churn, hm/more"
    assert "workloads" not in parent.data.params
