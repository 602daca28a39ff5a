"""Planned trials -> which waits, runs or has ended: each stable key is executed once, whoever is killed when.

The record on disk is the truth, the Optuna journal says who works on what. Every method holds the ledger's lock for a
few milliseconds. A trial that runs has a locked lease file; the lock is inherited by its process, so a runner that is
killed leaves the lease held for exactly as long as its orphan trains.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.paths import StudyPaths
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.records.store import read_record
from ablate.run.journal import explain_damage, open_journal
from ablate.run.leases import lease_path
from ablate.run.locks import FileLock, read_holder, short_lock


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A trial that this process now owns: its attempt, its number in the ledger and the held lease."""

    trial: PlannedTrial
    attempt: int
    number: int
    lease: FileLock


@dataclass(frozen=True, kw_only=True)
class Held:
    """Nothing waits, but trials of this list still run elsewhere; `lease_path` is the lease of the first of them."""

    trial: PlannedTrial
    lease_path: Path
    holder: Mapping[str, Any]


class Ledger:
    """The ledger of one study on one host."""

    def __init__(self, study: Study, paths: StudyPaths) -> None:
        self._paths = paths
        with short_lock(self._lock_path):
            self._storage, self._optuna = open_journal(paths.ledger, study.name)
        self._study_id = self._storage.get_study_id_from_name(study.name)

    def enqueue(self, trials: Sequence[PlannedTrial], *, retry_failed: bool = False) -> int:
        """Make sure that every trial is in the ledger once; done before, this adds only what is missing.

        Args:
            trials: Planned trials, in the order in which they should run.
            retry_failed: Set the records of trials that did not complete aside and enqueue a next attempt of them.

        Returns:
            Number of trials that were added to the queue.
        """
        with self._locked():
            self._reap()
            latest, added = self._latest(), 0
            for trial in trials:
                added += self._enqueue_one(trial, latest.get(trial.key), retry_failed)
            return added

    def claim(self, trials: Sequence[PlannedTrial]) -> Claim | Held | None:
        """Take the first waiting trial of the list, in list order.

        Returns:
            A claim; or who still runs one of the trials; or None when all of them have ended.
        """
        with self._locked():
            self._reap()
            latest, held = self._latest(), None
            for trial in trials:
                entry = latest.get(trial.key)
                if entry is None or entry.state.is_finished():
                    continue
                lease = FileLock.try_acquire(self._lease_path(trial.slug))
                if lease is None:
                    held = held or trial
                    continue
                record = self._record(trial.slug)
                if record is None:
                    return self._start(trial, entry, lease)
                self._close(entry.number, record)
                lease.release()
            return None if held is None else self._held(held)

    def finish(self, claim: Claim, record: TrialRecord) -> None:
        """Tell the result of a claimed trial and let go of its lease."""
        with self._locked():
            self._close(claim.number, record)
            claim.lease.release()

    def put_back(self, claim: Claim) -> None:
        """Let a claimed trial wait again, as if it had never started (Ctrl-C)."""
        with self._locked():
            self._storage.set_trial_state_values(self._trial_id(claim.number), TrialState.WAITING)
            claim.lease.release()

    # -- one key ---------------------------------------------------------------------------------------------------

    def _enqueue_one(self, trial: PlannedTrial, entry: FrozenTrial | None, retry_failed: bool) -> bool:
        record = self._record(trial.slug)
        if record is None:
            if entry is None or entry.state.is_finished():
                self._add(trial, attempt=1 if entry is None else entry.user_attrs["attempt"] + 1)
                return True
            return False
        running = entry is not None and entry.state == TrialState.RUNNING
        if retry_failed and not record.completed and not running:
            set_aside(self._folder(trial.slug), record.identity.attempt)
            self._add(trial, attempt=record.identity.attempt + 1)
            return True
        if entry is None:
            self._add(trial, attempt=record.identity.attempt)
            entry = self._latest()[trial.key]
        if entry.state == TrialState.WAITING:
            self._close(entry.number, record)
        return False

    def _add(self, trial: PlannedTrial, *, attempt: int) -> None:
        self._optuna.enqueue_trial({}, user_attrs=_attributes(trial, attempt))

    def _start(self, trial: PlannedTrial, entry: FrozenTrial, lease: FileLock) -> Claim:
        lease.describe({"trial": trial.key})
        self._storage.set_trial_state_values(self._trial_id(entry.number), TrialState.RUNNING)
        return Claim(trial=trial, attempt=entry.user_attrs["attempt"], number=entry.number, lease=lease)

    def _close(self, number: int, record: TrialRecord) -> None:
        steady = record.times.steady_s if record.times and record.completed else None
        trial_id = self._trial_id(number)
        reason = (
            record.failure.reason if record.failure else None if steady is not None else "no steady state"
        )
        if reason is not None:
            self._storage.set_trial_user_attr(trial_id, "reason", reason)
        self._storage.set_trial_user_attr(trial_id, "status", record.status)
        if steady is None:
            self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
        else:
            self._storage.set_trial_state_values(trial_id, TrialState.COMPLETE, [steady])

    def _reap(self) -> None:
        """Settle trials whose runner and process are both gone: take their record, or let them run once more."""
        for entry in self._optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            slug, attempt = entry.user_attrs["slug"], entry.user_attrs["attempt"]
            lease = FileLock.try_acquire(self._lease_path(slug))
            if lease is None:
                continue
            with lease:
                record = self._record(slug)
                if record is not None:
                    self._close(entry.number, record)
                    continue
                trial_id = self._trial_id(entry.number)
                self._storage.set_trial_user_attr(trial_id, "reason", "lost lease")
                self._storage.set_trial_state_values(trial_id, TrialState.FAIL)
                set_aside(self._folder(slug), attempt)
                attributes = {**entry.user_attrs, "attempt": attempt + 1}
                attributes.pop("reason", None)
                self._optuna.enqueue_trial({}, user_attrs=attributes)

    # -- look-ups --------------------------------------------------------------------------------------------------

    def _latest(self) -> dict[str, FrozenTrial]:
        return {entry.user_attrs["key"]: entry for entry in self._optuna.get_trials(deepcopy=False)}

    def _held(self, trial: PlannedTrial) -> Held:
        path = self._lease_path(trial.slug)
        return Held(trial=trial, lease_path=path, holder=read_holder(path))

    def _record(self, slug: str) -> TrialRecord | None:
        folder = self._folder(slug)
        return read_record(folder) if (folder / "record.json").exists() else None

    def _folder(self, slug: str) -> Path:
        return self._paths.records / slug

    def _lease_path(self, slug: str) -> Path:
        return lease_path(self._paths, slug)

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    @property
    def _lock_path(self) -> Path:
        return self._paths.ledger.with_name(self._paths.ledger.name + ".lock")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with short_lock(self._lock_path), explain_damage(self._paths.ledger):
            yield


def set_aside(folder: Path, attempt: int) -> None:
    """Keep the folder of an attempt that will be repeated as `<slug>.attempt-<n>`."""
    if not folder.exists():
        return
    kept = folder.with_name(f"{folder.name}.attempt-{attempt}")
    shutil.rmtree(kept, ignore_errors=True)
    folder.rename(kept)


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
