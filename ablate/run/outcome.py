"""Records on disk after a call of `run_study` -> what it came to, and the exit code."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ablate.core.cell import PlannedTrial, Purpose
from ablate.files.paths import StudyPaths
from ablate.records.store import read_record


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """A trial that ended without completing."""

    key: str
    status: str
    reason: str
    folder: str
    purpose: Purpose = "timed"


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What one call of `run_study` came to.

    Attributes:
        planned: Number of timed trials asked for.
        completed: How many of them are completed now, earlier calls included.
        trained: How many of them this call trained.
        failed: Trials, timed or parity, that ended without completing.
        interrupted: Whether the user stopped it; calling again continues.
        seconds: Wall time of this call.
        parity_planned, parity_completed, parity_trained: The same numbers of parity trials.
    """

    planned: int
    completed: int
    trained: int
    failed: tuple[FailedTrial, ...]
    interrupted: bool
    seconds: float
    parity_planned: int = 0
    parity_completed: int = 0
    parity_trained: int = 0

    @property
    def exit_code(self) -> int:
        """0 done, 2 some trials failed, 3 interrupted."""
        return 3 if self.interrupted else 2 if self.failed else 0


def summarize(
    paths: StudyPaths,
    wanted: Sequence[PlannedTrial],
    trained: Sequence[PlannedTrial],
    interrupted: bool,
    seconds: float,
) -> RunOutcome:
    """Read what became of the wanted trials.

    Args:
        paths: Files of the study.
        wanted: The trials that were asked for, timed and parity.
        trained: Those that this call trained.
        interrupted: Whether the user stopped it.
        seconds: Wall time of the call.
    """
    folders = [(trial.purpose, paths.records / trial.slug) for trial in wanted]
    ended = [(kind, folder, read_record(folder)) for kind, folder in folders if (folder / "record.json").exists()]
    planned = Counter(trial.purpose for trial in wanted)
    completed = Counter(purpose for purpose, _, record in ended if record.completed)
    trained_by_purpose = Counter(trial.purpose for trial in trained)
    failed = tuple(
        FailedTrial(
            key=record.identity.key,
            status=record.status,
            reason=record.failure.reason if record.failure else record.status,
            folder=str(folder),
            purpose=purpose,
        )
        for purpose, folder, record in ended
        if not record.completed
    )
    return RunOutcome(
        planned=planned["timed"],
        completed=completed["timed"],
        trained=trained_by_purpose["timed"],
        failed=failed,
        interrupted=interrupted,
        seconds=seconds,
        parity_planned=planned["parity"],
        parity_completed=completed["parity"],
        parity_trained=trained_by_purpose["parity"],
    )
