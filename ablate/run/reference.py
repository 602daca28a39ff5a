"""A parity trial -> the record folder of the eager parity trial whose checkpoints it restarts from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ablate.core.cell import PlannedTrial
from ablate.core.errors import TrialError
from ablate.core.paths import StudyPaths
from ablate.records.store import read_record


def find_reference(trial: PlannedTrial, trials: Sequence[PlannedTrial], paths: StudyPaths) -> Path | None:
    """Find where the eager reference of a trial lies; None for a trial that restarts from none.

    Args:
        trial: A trial about to be trained.
        trials: The planned trials of its study, its reference among them.
        paths: Where records lie.

    Raises:
        TrialError: the reference did not complete, so there is nothing to compare with.
    """
    if trial.reference is None:
        return None
    slugs = [other.slug for other in trials if other.key == trial.reference]
    folder = paths.records / slugs[0] if slugs else None
    if folder is None or not (folder / "record.json").exists():
        raise TrialError(f"not trained: its eager reference {trial.reference} has no record")
    record = read_record(folder)
    if not record.completed:
        reason = record.failure.reason if record.failure else record.status
        raise TrialError(f"not trained: its eager reference did not complete ({record.status}: {reason})")
    return folder
