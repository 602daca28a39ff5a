"""A store and the trial records -> entries by trial and block, added and mended; the record on disk is the truth."""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.core.request import TrialRequest
from ablate.files.paths import StudyPaths
from ablate.records.store import read_json, read_record
from ablate.run.ledger.backend import Store
from ablate.run.process.launch import REQUEST_NAME


class TrialQueue:
    """The entries of a ledger, one for each attempt of a trial; every method is called while the store is locked."""

    def __init__(self, store: Store, paths: StudyPaths) -> None:
        self._paths = paths
        self._storage, self._optuna = store.storage, store.optuna_study
        self._study_id = self._storage.get_study_id_from_name(self._optuna.study_name)

    def latest(self) -> dict[str, FrozenTrial]:
        """The last entry of each trial, by its key."""
        return {entry.user_attrs["key"]: entry for entry in self._optuna.get_trials(deepcopy=False)}

    def get(self, number: int) -> FrozenTrial:
        return self._storage.get_trial(self.id_of(number))

    def id_of(self, number: int) -> int:
        """Identity of an entry in Optuna's storage."""
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def record(self, slug: str) -> TrialRecord | None:
        """The current record of a trial, if any."""
        folder = self._paths.records / slug
        return read_record(folder) if (folder / "record.json").exists() else None

    def add(self, trial: PlannedTrial, *, attempt: int) -> None:
        """Add a waiting entry."""
        self._optuna.enqueue_trial({}, user_attrs=_attributes(trial, attempt))

    def add_missing(self, trial: PlannedTrial, entry: FrozenTrial | None, retry_failed: bool) -> bool:
        """Bring the entry of a trial in line with its record; True when it was added to the queue.

        Args:
            trial: The trial.
            entry: Its last entry, if any.
            retry_failed: Enqueue a next attempt when its record did not complete.
        """
        record = self.record(trial.slug)
        if record is None:
            if entry is None or entry.state.is_finished():
                kept = last_kept(self._paths.records / trial.slug)  # more than the ledger knows when it was made anew
                self.add(trial, attempt=1 + max(kept, 0 if entry is None else entry.user_attrs["attempt"]))
                return True
            return False
        running = entry is not None and entry.state == TrialState.RUNNING
        if retry_failed and not record.completed and not running:
            self.add_next(trial, record.identity.attempt)
            return True
        if entry is None:
            self.add(trial, attempt=record.identity.attempt)
            entry = self.latest()[trial.key]
        if entry.state == TrialState.WAITING:
            self.close(entry.number, record)
        return False

    def add_next(self, trial: PlannedTrial, attempt: int) -> None:
        """Set an attempt aside and enqueue the next one."""
        set_aside(self._paths.records / trial.slug, attempt)
        self.add(trial, attempt=attempt + 1)

    def set_state(self, number: int, state: TrialState) -> None:
        """Let an entry run or wait."""
        self._storage.set_trial_state_values(self.id_of(number), state)

    def mend(self, trials: Sequence[PlannedTrial]) -> dict[str, FrozenTrial]:
        """Bring back trials whose failure was noted by a worker that was killed before it noted what follows.

        Returns:
            The last entry of each trial, as `latest`.
        """
        latest = self.latest()
        failed = [trial for trial in trials if trial.key in latest and latest[trial.key].state == TrialState.FAIL]
        for trial in failed:
            record, attempt = self.record(trial.slug), latest[trial.key].user_attrs["attempt"]
            if record is None:
                self.add(trial, attempt=attempt + 1)
            elif record.completed and (trial.purpose == "parity" or (record.times and record.times.steady_s)):
                self.add(trial, attempt=record.identity.attempt)
        return self.latest() if failed else latest

    def close(self, number: int, record: TrialRecord) -> None:
        """End an entry as the record of its trial says."""
        timed = record.identity.purpose == "timed"
        steady = record.times.steady_s if timed and record.times and record.completed else None
        trial_id = self.id_of(number)
        without = "no steady state" if timed else "a parity trial has no steady time"
        reason = record.failure.reason if record.failure else None if steady is not None else without
        if reason is not None:
            self._storage.set_trial_user_attr(trial_id, "reason", reason)
        self._storage.set_trial_user_attr(trial_id, "status", record.status)
        if record.completed and record.identity.purpose == "parity":
            self._storage.set_trial_state_values(trial_id, TrialState.PRUNED)  # ended well, without a time to tell
        elif steady is None:
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
        else:
            self._storage.set_trial_state_values(trial_id, TrialState.COMPLETE, [steady])

    # -- what a store asks when a worker is gone --------------------------------------------------------------------

    def record_of(self, entry: FrozenTrial) -> TrialRecord | None:
        """The record of this attempt; that of another one does not count."""
        record = self.record(entry.user_attrs["slug"])
        return record if record is None or record.identity.attempt == entry.user_attrs["attempt"] else None

    def close_entry(self, entry: FrozenTrial, record: TrialRecord) -> None:
        """End an entry as its record says."""
        self.close(entry.number, record)

    def next_attempt(self, entry: FrozenTrial) -> dict[str, Any]:
        """Set aside what a lost attempt has left; returns the attributes of the next one."""
        attempt = entry.user_attrs["attempt"]
        set_aside(self._paths.records / entry.user_attrs["slug"], attempt)
        gone = ("reason", "worker")
        return {**{name: v for name, v in entry.user_attrs.items() if name not in gone}, "attempt": attempt + 1}


def waits_for_reference(trial: PlannedTrial, latest: Mapping[str, FrozenTrial]) -> bool:
    """Whether the eager parity trial that a trial restarts from has not ended yet."""
    reference = latest.get(trial.reference or "")
    return reference is not None and not reference.state.is_finished()


def set_aside(folder: Path, attempt: int) -> None:
    """Keep the folder of an attempt that will be repeated as `<slug>.attempt-<n>`; never in place of another record."""
    if not folder.exists():
        return
    kept = folder.with_name(f"{folder.name}.attempt-{attempt}")
    if (kept / "record.json").exists():
        kept = folder.with_name(f"{folder.name}.attempt-{last_kept(folder) + 1}")
    shutil.rmtree(kept, ignore_errors=True)
    folder.rename(kept)


def last_kept(folder: Path) -> int:
    """Number of the last attempt that was set aside beside a record folder; 0 when there is none."""
    numbers = (path.name.rpartition("-")[2] for path in folder.parent.glob(f"{folder.name}.attempt-*"))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _attributes(trial: PlannedTrial, attempt: int) -> dict[str, Any]:
    """What an entry says about its trial.

    Attributes, not parameters: Optuna fixes the possible values of a parameter with the first trial, and a study may
    get workloads later. (Entries of older ledgers have parameters as well; nobody reads them.)
    """
    cell = trial.cell.cell
    return {
        "key": trial.key,
        "slug": trial.slug,
        "attempt": attempt,
        "workload": trial.workload,
        "block": trial.block,
        "execution": cell.execution,
        "repeat": cell.repeat,
        "levels": dict(cell.levels),
    }


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
