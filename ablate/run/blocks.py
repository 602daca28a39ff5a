"""Planned trials -> the blocks they belong to: which have begun, and in which environments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from optuna.trial import TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.paths import StudyPaths
from ablate.core.request import TrialRequest
from ablate.records.store import read_json, read_record
from ablate.run.child import REQUEST_NAME


def block_of(trial: PlannedTrial) -> str:
    """File-system-safe name of what a worker takes as a whole: a workload and a block, e.g. `hm-user-churn--b00`."""
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', trial.workload)}--b{trial.block:02d}"


def is_begun(entries: Iterable[tuple[str, TrialState]]) -> bool:
    """Whether the timed or the parity trials of a block have begun and not all have ended.

    Args:
        entries: Purpose and state of each trial of the block.
    """
    states: dict[str, set[bool]] = {}
    for purpose, state in entries:
        if state == TrialState.RUNNING:
            return True
        states.setdefault(purpose, set()).add(state.is_finished())
    return any(len(both) == 2 for both in states.values())


def find_environments(paths: StudyPaths, slugs: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """The environments of the workers that trained the completed ones of some trials, as their requests tell."""
    for slug in slugs:
        folder = paths.records / slug
        if not (folder / "record.json").exists() or not (folder / REQUEST_NAME).exists():
            continue
        worker = read_json(folder / REQUEST_NAME, TrialRequest).worker
        if worker and read_record(folder).completed:
            yield worker
