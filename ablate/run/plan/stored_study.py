"""A study and its folder -> `study.json` and `design.json`, extended by what is there; a changed study is refused."""

from dataclasses import replace

from ablate.core.cell import Design
from ablate.core.errors import UserError
from ablate.core.serialize import to_dict
from ablate.core.study import Study, WorkloadChoice
from ablate.design.cells import make_design
from ablate.files.locks import short_lock
from ablate.files.paths import StudyPaths
from ablate.records.store import read_design, read_study, write_json


def store_plan(study: Study, design: Design, paths: StudyPaths) -> None:
    """Write the study and its design beside the records, extended by the blocks and workloads stored earlier.

    Raises:
        UserError: the folder belongs to a study that differs in something a trial depends on.
    """
    with short_lock(paths.root / "plan.lock"):
        check_same_study(study, paths)
        if paths.study_json.exists() and paths.design_json.exists():
            study, design = _extended(study, design, read_study(paths.study_json), read_design(paths.design_json))
        write_json(paths.design_json, design)
        write_json(paths.study_json, study)


def _extended(study: Study, design: Design, stored: Study, stored_design: Design) -> tuple[Study, Design]:
    """The union of two extents of one study; trials of cells that the design does not have (any more) are left out."""
    names = {choice.name for choice in study.workloads}
    workloads = (*study.workloads, *(choice for choice in stored.workloads if choice.name not in names))
    cells, places = set(design.effective_keys), {choice.name: place for place, choice in enumerate(workloads)}
    kept = (t for t in stored_design.trials if t.cell.effective_key in cells and t.workload in places)
    trials = {trial.key: trial for trial in (*kept, *design.trials)}
    in_order = sorted(trials.values(), key=lambda trial: (trial.block, places[trial.workload], trial.order))
    study = replace(study, blocks=in_order[-1].block + 1, workloads=workloads)
    timed = {(trial.block, trial.workload) for trial in in_order}
    parity = tuple(trial for trial in make_design(study).parity if (trial.block, trial.workload) in timed)
    return study, replace(design, trials=tuple(in_order), parity=parity)


def check_same_study(study: Study, paths: StudyPaths) -> None:
    """Refuse to mix trials of two different studies in one folder.

    Raises:
        UserError: the stored study has another hash.
    """
    if not paths.study_json.exists():
        return
    stored = read_study(paths.study_json)
    changed = changed_parts(stored, study, extends=False)
    if changed:
        raise UserError(
            f"study {study.name} differs from the one whose trials are in {paths.root} "
            f"(changed: {', '.join(changed)}); rename the study in the spec or use another folder with --runs"
        )


def changed_parts(stored: Study, study: Study, *, extends: bool = True) -> tuple[str, ...]:
    """Names of the parts in which two studies differ, as a spec writes them, e.g. `timing`, `hm/user-churn: channels`.

    Args:
        stored: The study that ran.
        study: The study that is asked for.
        extends: Also parts that no trial depends on, such as more blocks.
    """
    names = []
    for name in Study.__dataclass_fields__:
        if name not in NOT_OF_THE_SPEC:
            swapped = replace(stored, **{name: getattr(study, name)})
            matters = swapped.hash != stored.hash
            if matters or (extends and _written(swapped, name) != _written(stored, name)):
                names.append(NAMES_IN_A_SPEC.get(name, name))
    known = {choice.name: choice for choice in stored.workloads}
    for choice in study.workloads:
        if choice.name in known and choice.identity != known[choice.name].identity:
            names.append(f"{choice.name}: {_changed_options(known[choice.name], choice)}")
    return tuple(dict.fromkeys(names))


def _written(study: Study, name: str) -> object:
    """A part of a study, without what an optimization or a workload says about itself."""
    if name == "workloads":
        return {choice.name for choice in study.workloads}
    if name == "factors":
        return [(factor.name, factor.setting) for factor in study.factors]
    return to_dict(getattr(study, name))


def _changed_options(stored: WorkloadChoice, choice: WorkloadChoice) -> str:
    one, two = to_dict(stored.options), to_dict(choice.options)
    changed = [name for name in {**one, **two} if one.get(name, _ABSENT) != two.get(name, _ABSENT)]
    return ", ".join(changed) or "its file"


def describe_edit(stored: Study, study: Study) -> str | None:
    """Say that the spec was edited since the study ran, and what changed; None when it was not.

    A spec whose text is the same may still be another study: an outside file was edited, or the device is another one.
    """
    changed = changed_parts(stored, study, extends=stored.spec_text != study.spec_text)
    if not changed:
        return None
    other = changed_parts(stored, study, extends=False)
    then = "which makes it another study: `run` needs another name or --runs" if other else "which extends the study"
    return f"the spec was edited since trials of {study.name} ran (changed: {', '.join(changed)}), {then}"


NOT_OF_THE_SPEC = ("spec_path", "spec_text", "profile")
NAMES_IN_A_SPEC = {
    "factors": "optimizations", "cells": "design", "trial_timeout_s": "trial_timeout", "tracking_uri": "tracking"
}  # fmt: skip
_ABSENT = object()
