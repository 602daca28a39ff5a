"""Trials that must not be compared -> they are set aside, by name, and the others stay."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.analysis.analyze import analyze
from ablate.analysis.results.study import WorkloadResults
from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.core.study import ExplicitCell, Study
from ablate.design.cells import make_design
from ablate.records.store import write_record
from builders import make_factors, make_study, make_workloads
from simulated import analyzed, fail, make_records, write_study_folder

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")
ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))


def results_of(tmp_path: Path, study: Study, **simulation: Any) -> WorkloadResults:
    [results] = analyzed(tmp_path, study, **simulation).workloads
    return results


def steady(results: WorkloadResults, kind: str, subject: str = "") -> Any:
    return results.speed.effect("steady", kind, subject)  # type: ignore[arg-type]


def test_failed_trial_drops_its_block_where_it_is_needed(tmp_path: Path) -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord | None:
        if planned.block == 1 and planned.cell.name == "with-tensor_lr":
            return fail(record, "out of memory")
        return None if planned.block == 2 and planned.cell.name == "full" else record

    results = results_of(tmp_path, make_study(blocks=6, factors=make_factors(THREE)), change=change)
    assert steady(results, "total").estimate.blocks == (0, 1, 3, 4, 5)
    assert steady(results, "optimization", "sync_free").estimate.blocks == (0, 3, 4, 5)
    assert steady(results, "optimization", "sync_free").estimate.grade == "pilot"
    assert steady(results, "add-one-in", "tensor_lr").estimate.blocks == (0, 2, 3, 4, 5)
    assert steady(results, "total").dropped == ("block 2: full not run",)
    failed = {(t.name, t.status, t.reason) for t in results.quality.trials if not t.completed}
    assert failed == {("with-tensor_lr", "failed", "out of memory"), ("full", "not run", "")}


def test_no_block_left_is_refused_with_the_missing_trial(tmp_path: Path) -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        return fail(record, "killed", "killed") if planned.cell.name == "full" else record

    results = results_of(tmp_path, make_study(design="cells", cells=ARMS), change=change)
    total = steady(results, "total")
    assert total.estimate is None
    assert total.why == "no complete block"
    assert total.dropped == ("block 0: full killed (killed)", "block 1: full killed (killed)")
    assert steady(results, "compile").estimate.blocks == (0, 1)


def test_streams_that_differ_are_not_paired(tmp_path: Path) -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        assert record.data is not None
        odd = planned.block == 1 and planned.cell.name == "full"
        return replace(record, data=replace(record.data, stream_hash="other")) if odd else record

    results = results_of(tmp_path, make_study(design="cells", cells=ARMS, blocks=3), change=change)
    assert steady(results, "total").estimate.blocks == (0, 2)
    assert [(f.kind, f.text[:7]) for f in results.quality.findings] == [("not comparable", "block 1")]


def test_environments_that_differ_are_not_pooled(tmp_path: Path) -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        threads = 4 if planned.workload == "hm/item-sales" and planned.block == 1 else 2
        variables = {"TORCHINDUCTOR_CACHE_DIR": planned.slug}
        return replace(record, environment=replace(record.environment, num_threads=threads, variables=variables))

    study = make_study(design="cells", cells=ARMS, workloads=make_workloads("hm/user-churn", "hm/item-sales"))
    results = analyzed(tmp_path, study, change=change)
    churn, sales = results.workload("hm/user-churn"), results.workload("hm/item-sales")
    assert steady(churn, "total").estimate is not None
    refused = steady(sales, "total")
    assert refused.why == "not comparable"
    assert "num_threads: 2 (3 trials) against 4 (3 trials)" in refused.cause
    assert churn.speed.break_even and not sales.speed.break_even


def test_a_trial_that_was_changed_afterwards_is_omitted_and_named(tmp_path: Path) -> None:
    study = make_study(design="cells", cells=ARMS, blocks=3)
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    missed, faster, swapped = (
        paths.records / next(t.slug for t in design.trials if (t.cell.name, t.block) == place)
        for place in (("eager", 0), ("full", 1), ("naive", 2))
    )
    (missed / "series.parquet").unlink()
    content = json.loads((faster / "record.json").read_text())
    content["times"]["epoch_s"] = [seconds / 221 for seconds in content["times"]["epoch_s"]]
    (faster / "record.json").write_text(json.dumps(content))
    shutil.copy(faster / "series.parquet", swapped)
    [results] = analyze(paths).workloads
    found = [f.text.removeprefix(f"{paths.records}/").partition(" and its")[0] for f in results.quality.findings[:3]]
    assert sorted(found) == sorted(
        (
            f"{missed.name}/series.parquet is missing",
            f"{faster.name}/record.json was changed after the trial had ended",
            f"{swapped.name}/series.parquet was changed after the trial had ended",
        )
    )
    # full against eager: both are as they were left in block 2 only
    assert results.speed.effect("steady", "total").estimate.blocks == (2,)
    assert json.loads((faster / "record.json").read_text()) == content


def test_records_of_another_version_are_omitted(tmp_path: Path) -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        if planned.block == 0:
            return record
        return replace(record, identity=replace(record.identity, study_hash="0" * 16))

    results = results_of(tmp_path, make_study(design="cells", cells=ARMS), change=change)
    assert steady(results, "total").estimate.blocks == (0,)
    assert len([f for f in results.quality.findings if "another version" in f.text]) == 3


def test_last_attempt_counts_and_the_first_stays_listed(tmp_path: Path) -> None:
    study = make_study(design="cells", cells=ARMS, blocks=1)
    design = make_design(study)
    trials = make_records(study, design)
    paths = write_study_folder(tmp_path, study, design, trials)
    record, _series = next(t for t in trials if "full" in t[0].identity.arms)
    first = fail(record, "out of memory")
    folder = next(path for path in paths.records.iterdir() if "full" in path.name)
    folder.rename(folder.with_name(f"{folder.name}.attempt-1"))
    write_record(folder.with_name(f"{folder.name}.attempt-1"), first)
    write_record(folder, replace(record, identity=replace(record.identity, attempt=2)))
    [results] = analyze(paths).workloads
    rows = [(t.attempt, t.status) for t in results.quality.trials if t.name == "full"]
    assert rows == [(1, "failed"), (2, "completed")]
    assert not any("did not complete" in s for s in results.headline)
    assert steady(results, "total").estimate.blocks == (0,)


def test_trials_on_different_data_are_not_pooled(tmp_path: Path) -> None:
    study = make_study(factors=make_factors(["tensor_lr"]), blocks=2)
    design = make_design(study)
    trials = make_records(study, design)
    record, series = trials[-1]
    assert record.data is not None
    trials[-1] = (replace(record, data=replace(record.data, dataset_digest="another")), series)
    [results] = analyze(write_study_folder(tmp_path, study, design, trials)).workloads
    assert any("different data" in finding.text for finding in results.quality.findings)
    assert steady(results, "total").estimate is None
