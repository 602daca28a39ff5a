"""Trials whose later stages failed -> their times count, and a finding and a flag say what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.analysis.analyze import analyze_trials
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.trials.comparable import Trial
from ablate.core.evidence import FailedStage
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from builders import make_study
from simulated import make_records

ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))
PREDICTION = FailedStage(stage="prediction", reason="RuntimeError: planted", traceback="Traceback ...")


def analyzed(*failed: FailedStage) -> WorkloadResults:
    """Three arms in two blocks; these stages failed in `naive` of block 0, which then has no metric."""
    study = make_study(design="cells", cells=ARMS, blocks=2)
    design = make_design(study)

    def change(record: Any, planned: Any) -> Any:
        if planned.cell.name != "naive" or planned.block or not failed:
            return record
        return replace(record, failed_after=failed, metric=None)

    trials = [Trial(record=record, folder=Path("none")) for record, _ in make_records(study, design, change=change)]
    return analyze_trials(study, design, trials).workloads[0]


def test_the_times_are_those_of_a_whole_trial() -> None:
    whole, broken = analyzed(), analyzed(PREDICTION)
    assert [effect.estimate for effect in broken.speed.effects] == [effect.estimate for effect in whole.speed.effects]
    rows = [row for row in broken.quality.trials if row.name == "naive" and row.block == 0]
    assert [(row.status, row.metric, row.steady_s is not None) for row in rows] == [("completed", None, True)]
    assert rows[0].flags == ("prediction failed after the training",)


def test_a_finding_names_stage_trial_reason_and_what_is_missing() -> None:
    assert not [f for f in analyzed().quality.findings if "after the training" in f.text]
    audit = FailedStage(stage="audit", reason="out of memory (OutOfMemoryError)")
    texts = [f.text for f in analyzed(PREDICTION, audit).quality.findings if "after the training" in f.text]
    assert texts == [
        "prediction failed after the training of 1 of 6 timed trials (naive in block 0): RuntimeError: planted; their "
        "times and losses count, without metric and predictions",
        "audit failed after the training of 1 of 6 timed trials (naive in block 0): out of memory (OutOfMemoryError); "
        "their times and losses count, without syncs",
    ]
