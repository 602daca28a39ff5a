"""A spec and options -> study, design and paths; or the paths of a study that ran before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    from ablate.run.plan.plan import select_parity, select_trials
    from ablate.spec.reader import read_study

    kind = kind_of_wish(device) or detect_device().kind
    overrides = {} if blocks is None else {"blocks": blocks}
    study = read_study(spec, catalog=make_catalog(), device=kind, overrides=overrides)
    design = make_design(study)
    return LoadedStudy(
        study=study,
        design=design,
        trials=select_trials(study, design, workloads),
        parity=select_parity(study, design, workloads),
        paths=StudyPaths.of(study.name, runs=runs, reports=reports),
    )


def find_paths(spec: Path, *, runs: Path, reports: Path) -> StudyPaths:
    """Paths of a study that ran before, given its spec or its folder; needs no torch and no ledger.

    Raises:
        UserError: the spec is wrong, or the study never ran.
    """
    if spec.is_dir():
        paths = StudyPaths(root=spec.resolve(), report=(reports / spec.resolve().name).resolve())
    else:
        from ablate.plugins.catalog import make_catalog
        from ablate.spec.reader import read_study

        paths = StudyPaths.of(read_study(spec, catalog=make_catalog()).name, runs=runs, reports=reports)
    if not paths.study_json.exists():
        raise UserError(f"there is no study in {paths.root}; start it with `ablate run SPEC`, or give --runs")
    return paths
