"""A study and its folder -> `study.json` and `design.json`: a changed study is refused, disk errors are explained."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ablate.core.cell import Design
from ablate.core.errors import UserError
from ablate.core.paths import StudyPaths
from ablate.core.study import Study
from ablate.records.store import read_design, read_study, write_json

DISK_ERRORS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of your quota",
    errno.EACCES: "make the folder writable or choose another one with --runs",
    errno.EPERM: "make the folder writable or choose another one with --runs",
    errno.EROFS: "choose a folder on a writable file system with --runs",
    errno.ENOTDIR: "choose another folder with --runs",
    errno.EIO: "check the disk",
}


def store_plan(study: Study, design: Design, paths: StudyPaths) -> None:
    """Write the study and its design beside the records; a stored plan with more blocks is kept.

    Raises:
        UserError: the folder belongs to a study that differs in something a trial depends on.
    """
    if paths.study_json.exists():
        check_same_study(study, paths)
        stored = read_study(paths.study_json)
        if paths.design_json.exists() and stored.blocks > study.blocks:
            study, design = replace(study, blocks=stored.blocks), read_design(paths.design_json)
    write_json(paths.design_json, design)
    write_json(paths.study_json, study)


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


@contextmanager
def explain_disk_errors(paths: StudyPaths) -> Iterator[None]:
    """Turn a full disk or an unwritable folder into one sentence."""
    try:
        yield
    except OSError as error:
        advice = DISK_ERRORS.get(error.errno or 0)
        if advice is None:
            raise
        place = error.filename or paths.root
        raise UserError(
            f"cannot write {place}: {error.strerror}; {advice} and run again, every finished trial is kept"
        ) from error
