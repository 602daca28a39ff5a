"""Records on disk after a call of `run_study` -> what it came to, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ablate.core.cell import PlannedTrial
from ablate.core.paths import StudyPaths
from ablate.records.store import read_record


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """A trial that ended without completing."""

    key: str
    status: str
    reason: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What one call of `run_study` came to.

    Attributes:
        planned: Number of trials asked for.
        completed: How many of them are completed now, earlier calls included.
        trained: How many this call trained.
        failed: Trials that ended without completing.
        interrupted: Whether the user stopped it; calling again continues.
        seconds: Wall time of this call.
    """

    planned: int
    completed: int
    trained: int
    failed: tuple[FailedTrial, ...]
    interrupted: bool
    seconds: float

    @property
    def exit_code(self) -> int:
        """0 done, 2 some trials failed, 3 interrupted."""
        return 3 if self.interrupted else 2 if self.failed else 0


def summarize(
    paths: StudyPaths, wanted: Sequence[PlannedTrial], trained: int, interrupted: bool, seconds: float
) -> RunOutcome:
    """Read what became of the wanted trials.

    Args:
        paths: Files of the study.
        wanted: The trials that were asked for.
        trained: How many of them this call trained.
        interrupted: Whether the user stopped it.
        seconds: Wall time of the call.
    """
    folders = [paths.records / trial.slug for trial in wanted]
    ended = [(folder, read_record(folder)) for folder in folders if (folder / "record.json").exists()]
    failed = tuple(
        FailedTrial(
            key=record.identity.key,
            status=record.status,
            reason=record.failure.reason if record.failure else record.status,
            folder=str(folder),
        )
        for folder, record in ended
        if not record.completed
    )
    return RunOutcome(
        planned=len(wanted),
        completed=len(ended) - len(failed),
        trained=trained,
        failed=failed,
        interrupted=interrupted,
        seconds=seconds,
    )
