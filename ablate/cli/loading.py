"""A spec and options -> study, design and paths; or the paths of a study that ran before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.cli.terminal import print_error
from ablate.core.cell import Design, PlannedTrial
from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.paths import StudyPaths


@dataclass(frozen=True, kw_only=True)
class LoadedStudy:
    """A study as asked for on the command line.

    `trials` (timed) and `parity` are those selected by the options, in execution order.
    """

    study: Study
    design: Design
    trials: tuple[PlannedTrial, ...]
    paths: StudyPaths
    parity: tuple[PlannedTrial, ...] = ()


def load_study(
    spec: Path,
    *,
    runs: Path,
    reports: Path,
    blocks: int | None = None,
    workloads: Sequence[str] | None = None,
    device: str | None = None,
) -> LoadedStudy:
    """Read a spec for this machine, or for the kind of device asked for, and lay out its design.

    Raises:
        UserError: anything wrong in the spec or the options.
    """
    from ablate.design.cells import make_design
    from ablate.plugins.catalog import make_catalog
    from ablate.run.devices import detect_device, kind_of_wish
    from ablate.run.plan.check import check_trainable
    from ablate.run.plan.plan import select_parity, select_trials
    from ablate.spec.reader import read_study

    kind = kind_of_wish(device) or detect_device().kind
    overrides = {} if blocks is None else {"blocks": blocks}
    study = read_study(spec, catalog=make_catalog(), device=kind, overrides=overrides)
    paths = StudyPaths.of(study.name, runs=runs, reports=reports)
    _tell_edit(study, paths)
    design = make_design(study)
    check_trainable(study, design)
    return LoadedStudy(
        study=study,
        design=design,
        trials=select_trials(study, design, workloads),
        parity=select_parity(study, design, workloads),
        paths=paths,
    )


def _tell_edit(study: Study, paths: StudyPaths, then: str = "") -> None:
    """Say on stderr that the spec is not the one that ran, if it is not."""
    from ablate.records.store import read_study as read_stored
    from ablate.run.plan.stored_study import describe_edit

    if paths.study_json.exists() and (edit := describe_edit(read_stored(paths.study_json), study)) is not None:
        print_error(edit + then)


def find_paths(spec: Path, *, runs: Path, reports: Path) -> StudyPaths:
    """Paths of a study that ran before, given its spec or its folder; needs no torch and no ledger.

    Raises:
        UserError: the spec is wrong, or the study never ran.
    """
    if spec.is_dir():
        paths = StudyPaths(root=spec.resolve(), report=(reports / spec.resolve().name).resolve())
    else:
        from ablate.plugins.catalog import make_catalog
        from ablate.records.store import read_study as read_stored
        from ablate.spec.reader import read_study

        study = read_study(spec, catalog=make_catalog())
        paths = StudyPaths.of(study.name, runs=runs, reports=reports)
        if paths.study_json.exists() and (device := read_stored(paths.study_json).device) != study.device:
            study = read_study(spec, catalog=make_catalog(), device=device)
        _tell_edit(study, paths, "; this is about the study as it ran")
    if not paths.study_json.exists():
        raise UserError(f"there is no study in {paths.root}; start it with `ablate run SPEC`, or give --runs")
    return paths
