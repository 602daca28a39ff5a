"""What a study's folder takes: more blocks and workloads, outside ones too; another form of a workload is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.study import Study, WorkloadChoice
from ablate.core.workload import WorkloadInfo
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.records.store import read_design, read_study
from ablate.run.plan.stored_study import changed_parts, describe_edit, store_plan
from builders import make_study, make_workloads

OWN = WorkloadChoice(info=WorkloadInfo(name="own", title="own", lr=0.1), path="/own.py", digest="1" * 16)


def stored(folder: Path, study: Study) -> StudyPaths:
    paths = StudyPaths.of(study.name, runs=folder / "runs", reports=folder / "reports")
    store_plan(study, make_design(study), paths)
    return paths


def test_an_outside_workload_extends_a_study(tmp_path: Path) -> None:
    study = make_study(blocks=1)
    stored(tmp_path, study)
    paths = stored(tmp_path, replace(study, workloads=(*study.workloads, OWN)))
    assert [choice.name for choice in read_study(paths.study_json).workloads] == ["hm/user-churn", "own"]
    paths = stored(tmp_path, study)  # asked for alone again: the other one stays
    assert [choice.name for choice in read_study(paths.study_json).workloads] == ["hm/user-churn", "own"]
    assert {trial.workload for trial in read_design(paths.design_json).trials} == {"hm/user-churn", "own"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (make_workloads("hm/user-churn", channels=16), "hm/user-churn: channels"),
        (make_workloads("hm/user-churn", channels=16, dropout=0.0), "hm/user-churn: channels, dropout"),
        ((*make_workloads("hm/user-churn"), replace(OWN, digest="2" * 16)), "own: its file"),
    ],
)
def test_another_form_of_a_workload_is_refused_by_name(
    tmp_path: Path, changed: tuple[WorkloadChoice, ...], named: str
) -> None:
    study = make_study(blocks=1, workloads=(*make_workloads("hm/user-churn"), OWN))
    stored(tmp_path, study)
    with pytest.raises(UserError, match=rf"\(changed: {named}\); rename the study in the spec"):
        stored(tmp_path, replace(study, workloads=changed))


def test_parts_are_named_as_a_spec_writes_them() -> None:
    study = make_study()
    other = replace(study, trial_timeout_s=1.0, factors=study.factors[:4], question="Another?", blocks=9)
    assert changed_parts(study, other) == ("question", "optimizations", "blocks", "trial_timeout")
    assert changed_parts(study, other, extends=False) == ("optimizations",)


def test_an_option_of_the_command_line_is_no_edit() -> None:
    study = make_study()
    assert describe_edit(study, replace(study, blocks=9)) is None
    edited = replace(study, blocks=9, spec_text="another text")
    assert describe_edit(study, edited) == (
        "the spec was edited since trials of test-study ran (changed: blocks), which extends the study"
    )
