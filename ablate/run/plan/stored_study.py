"""A study and its folder -> `study.json` and `design.json`, extended by what is there; a changed study is refused."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.cell import Design
from ablate.core.errors import UserError
from ablate.core.study import Study
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
    if stored.hash != study.hash:
        raise UserError(
            f"study {study.name} differs from the one whose trials are in {paths.root} "
            f"({changed_fields(stored, study)}); rename the study in the spec or use another folder with --runs"
        )


def changed_fields(stored: Study, study: Study) -> str:
    """Names of the parts in which two studies differ and that change the hash, e.g. `changed: timing, training`."""
    names = [
        name
        for name in Study.__dataclass_fields__
        if replace(stored, **{name: getattr(study, name)}).hash != stored.hash
    ]
    return f"changed: {', '.join(names)}"
