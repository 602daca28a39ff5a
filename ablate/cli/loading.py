"""A spec and options -> study, design and paths; or the paths of a study that ran before."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ablate.cli.terminal import REPORTS, RUNS, print_error
from ablate.core.cell import Design, PlannedTrial
from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.disk import explain_disk_errors
from ablate.files.paths import StudyPaths
from ablate.run.options import DEFAULTS, RunOptions


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

    @classmethod
    def of(cls, study: Study, paths: StudyPaths, workloads: Sequence[str]) -> Self:
        """Lay out a study and select what trains these workloads (none: all)."""
        from ablate.design.cells import make_design
        from ablate.run.plan.plan import select_parity, select_trials

        design = make_design(study)
        trials, parity = (select(study, design, workloads) for select in (select_trials, select_parity))
        return cls(study=study, design=design, trials=trials, parity=parity, paths=paths)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that were selected."""
        return tuple(dict.fromkeys(trial.workload for trial in self.trials))


def load_study(
    spec: Path, options: RunOptions = DEFAULTS, *, runs: Path, reports: Path, blocks: int | None = None
) -> LoadedStudy:
    """Read a spec for this machine, or for the kind of device asked for, and lay out its design.

    Raises:
        UserError: anything wrong in the spec or the options.
    """
    from ablate.plugins.registry import make_catalog
    from ablate.run.devices import detect_device, kind_of_wish
    from ablate.run.plan.check import check_trainable
    from ablate.spec.reader import read_study

    kind = kind_of_wish(options.device) or detect_device().kind
    overrides = {} if blocks is None else {"blocks": blocks}
    study = read_study(spec, catalog=make_catalog(), device=kind, overrides=overrides)
    paths = StudyPaths.of(study.name, runs=runs, reports=reports)
    _tell_edit(study, paths)
    loaded = LoadedStudy.of(study, paths, options.workloads)
    check_trainable(study, loaded.design)
    return loaded


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
    from ablate.records.store import read_study

    if spec.is_dir():
        root = spec
    else:
        from ablate.plugins.registry import make_catalog
        from ablate.spec.reader import read_study as read_spec

        study = read_spec(spec, catalog=make_catalog())
        root = runs / study.name
        stored = StudyPaths(root=root.resolve(), report=reports)
        if stored.study_json.exists() and (device := read_study(stored.study_json).device) != study.device:
            study = read_spec(spec, catalog=make_catalog(), device=device)
        _tell_edit(study, stored, "; this is about the study as it ran")
    paths = StudyPaths(root=root.resolve(), report=reports)
    if not paths.study_json.exists():
        raise UserError(f"there is no study in {paths.root}; start it with `ablate run SPEC`, or give --runs")
    return StudyPaths(root=paths.root, report=(reports / read_study(paths.study_json).name).resolve())


def write_options(options: RunOptions, *, runs: Path, reports: Path = REPORTS, blocks: int | None = None) -> list[str]:
    """The words of a command line that ask for the same once more, without passwords.

    `--retry-failed` is omitted: what it sets aside waits already.
    """
    from ablate.track.experiment import visible_uri

    ledger = options.ledger
    if ledger is not None:
        from ablate.run.ledger.postgresql import visible_address

        ledger = visible_address(ledger)
    values = {
        "--blocks": (blocks, None),
        "--runs": (runs, RUNS),
        "--reports": (reports, REPORTS),
        "--device": (options.device, DEFAULTS.device),
        "--ledger": (ledger, None),
        "--workers": (options.workers, DEFAULTS.workers),
        "--executor": (options.executor, DEFAULTS.executor),
        "--tracking-uri": (visible_uri(options.tracking_uri) if options.tracking_uri else None, None),
    }
    words = [word for name in options.workloads for word in ("--workload", name)]
    words += ["--restart-blocks"] if options.restart_blocks else []
    words += [word for pair in options.executor_options.items() for word in ("--executor-option", "=".join(pair))]
    return words + [word for name, (value, usual) in values.items() if value != usual for word in (name, str(value))]


def check_folder(folder: Path, option: str) -> None:
    """Refuse a folder in which nothing can be written, before anything is started; it need not exist.

    Raises:
        UserError: it, or what it would lie in, is a file or not writable.
    """
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    try:
        with explain_disk_errors(choose=f" with {option}"), _named(there), tempfile.TemporaryDirectory(dir=there):
            return
    except OSError as error:
        raise UserError(f"cannot write {there}: {error.strerror}; choose another folder with {option}") from error


@contextmanager
def _named(place: Path) -> Iterator[None]:
    """Name this place in an error of the system, instead of what was tried in it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place)) from error
