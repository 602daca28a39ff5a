"""Planned trials -> which waits, runs or has ended: each stable key is executed once, whoever is killed when.

The record on disk is the truth, the entries (in a journal file or in PostgreSQL) say who works on what. Every method
holds the ledger's lock for a few milliseconds. A worker takes the trials of a workload and block together: another one
gets them only when that worker and its process are gone, and only in the same environment.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from ablate.run.blocks import block_of, find_environments, is_begun
from ablate.run.holders import make_holder
from ablate.run.journal import JournalStore
from ablate.run.stores import Lease, OnWait, Store
from ablate.run.worker import describe_difference


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A trial that this process now owns: its attempt, its number in the ledger, its lease and that of its block."""

    trial: PlannedTrial
    attempt: int
    number: int
    lease: Lease
    block: Lease

    @property
    def leases(self) -> tuple[Lease, Lease]:
        return self.lease, self.block


@dataclass(frozen=True, kw_only=True)
class Held:
    """Nothing waits that this worker may take, but others have trials of this list; `trial` is the first of them."""

    trial: PlannedTrial
    holder: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """Nothing is left but trials of blocks that were begun in another environment, and nobody works on those.

    `differences` says by block what differs.
    """

    differences: Mapping[str, str]


class Ledger:
    """The ledger of one study, as one worker sees it.

    Args:
        study: The study.
        paths: Its files.
        store: Where the entries are kept; None = in the journal file beside the records.
        worker: Environment of this worker (see `ablate.run.worker`); empty = fits every block.
    """

    def __init__(
        self,
        study: Study,
        paths: StudyPaths,
        *,
        store: Store | None = None,
        worker: Mapping[str, str] | None = None,
    ) -> None:
        self._name, self._paths = study.name, paths
        self._store: Store = JournalStore(study.name, paths) if store is None else store
        self._storage, self._optuna = self._store.storage, self._store.optuna_study
        self._study_id = self._storage.get_study_id_from_name(self._optuna.study_name)
        self._worker = dict(worker or {})
        self._blocks: dict[str, Lease] = {}

    @property
    def tied(self) -> bool:
        """Whether a trial's process must die with this worker."""
        return self._store.tied

    def is_lost(self) -> bool:
        """Whether this worker has lost its leases, so that its trial must end at once."""
        return self._store.is_lost()

    def enqueue(
        self, trials: Sequence[PlannedTrial], *, retry_failed: bool = False, restart_blocks: bool = False
    ) -> int:
        """Make sure that every trial is in the ledger once; done before, this adds only what is missing.

        Args:
            trials: Planned trials, in the order in which they should run.
            retry_failed: Set the records of trials that did not complete aside and enqueue a next attempt of them.
            restart_blocks: Do so with all records of unfinished blocks that were begun in another environment.

        Returns:
            Number of trials that were added to the queue.
        """
        with self._locked():
            self._store.reap(self)
            latest, added = self._latest(), 0
            for trial in trials:
                fits = not retry_failed or not self._difference(trial, trials)
                added += self._enqueue_one(trial, latest.get(trial.key), retry_failed and fits)
            if restart_blocks:
                added += self._restart_blocks(trials)
            return added

    def claim(self, trials: Sequence[PlannedTrial]) -> Claim | Held | Foreign | None:
        """Take the first waiting trial of the list, in list order, from the blocks that this worker has or can take.

        Returns:
            A claim; or who else has some of the trials; or what keeps this worker from the rest; or None when all have
            ended.
        """
        with self._locked():
            self._store.reap(self)
            latest = self._mend(trials)
            self._let_go(trials, latest)
            held: PlannedTrial | None = None
            foreign: dict[str, str] = {}
            for trial in trials:
                entry = latest.get(trial.key)
                if entry is None or entry.state.is_finished() or _waits_for_reference(trial, latest):
                    continue
                block = block_of(trial)
                if block in foreign:
                    continue
                if block not in self._blocks and not self._take(trial, trials, foreign):
                    held = held or (None if block in foreign else trial)
                    continue
                if entry.state == TrialState.RUNNING:  # by a process left behind that will be reaped
                    held = held or trial
                    continue
                lease = self._store.lease_trial(trial.slug, self._trial_id(entry.number))
                if lease is None:
                    held = held or trial
                    continue
                record = self._record(trial.slug)
                if record is None:
                    return self._start(trial, entry, lease)
                self._close(entry.number, record)
                lease.release()
            if held is not None:
                return Held(trial=held, holder=self._store.holder(block_of(held), held.slug))
            return Foreign(differences=foreign) if foreign else None

    def wait(self, held: Held, on_wait: OnWait) -> None:
        """Wait until another worker, or what it left behind, lets go of something; then claim again."""
        self._store.wait(block_of(held.trial), held.trial.slug, on_wait)

    def finish(self, claim: Claim, record: TrialRecord) -> None:
        """Tell the result of a claimed trial and let go of its lease."""
        with self._locked():
            if not self._entry(claim.number).state.is_finished():  # else somebody has taken it from the record
                self._close(claim.number, record)
            claim.lease.release()

    def put_back(self, claim: Claim) -> None:
        """Let a claimed trial wait again, as if it had never started (Ctrl-C)."""
        with self._locked():
            if not self._entry(claim.number).state.is_finished():
                self._storage.set_trial_state_values(self._trial_id(claim.number), TrialState.WAITING)
            claim.lease.release()

    def close(self) -> None:
        """Let go of every block; a process left behind keeps the one it trains in."""
        for lease in self._blocks.values():
            lease.release()
        self._blocks.clear()
        self._store.close()

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _take(self, trial: PlannedTrial, trials: Sequence[PlannedTrial], foreign: dict[str, str]) -> bool:
        """Take the block of a trial; False when somebody has it, or, noted in `foreign`, when it is not for here."""
        block = block_of(trial)
        lease = self._store.lease_block(block)
        if lease is None:
            return False
        difference = self._difference(trial, trials)
        if difference:
            lease.release()
            foreign[block] = difference
            return False
        lease.describe(make_holder(study=self._name, root=self._paths.root, worker=self._worker))
        self._blocks[block] = lease
        return True

    def _difference(self, trial: PlannedTrial, trials: Iterable[PlannedTrial]) -> str:
        """What differs between this worker and those that began the block of a trial; empty when nothing does."""
        slugs = (other.slug for other in trials if block_of(other) == block_of(trial))
        for there in find_environments(self._paths, slugs):
            if self._worker and (difference := describe_difference(there, self._worker)):
                return difference
        return ""

    def _let_go(self, trials: Sequence[PlannedTrial], latest: Mapping[str, FrozenTrial]) -> None:
        """Let go of blocks that are finished, or whose parity trials nobody has begun."""
        for block in list(self._blocks):
            entries = [(trial, latest.get(trial.key)) for trial in trials if block_of(trial) == block]
            if not is_begun((trial.purpose, entry.state) for trial, entry in entries if entry is not None):
                self._blocks.pop(block).release()

    def _restart_blocks(self, trials: Sequence[PlannedTrial]) -> int:
        added = 0
        for block in dict.fromkeys(block_of(trial) for trial in trials):
            inside = [trial for trial in trials if block_of(trial) == block]
            latest = self._latest()
            if all(latest[trial.key].state.is_finished() for trial in inside):
                continue
            if not self._difference(inside[0], inside) or (lease := self._store.lease_block(block)) is None:
                continue
            for trial in inside:
                entry = latest[trial.key]
                if entry.state.is_finished():
                    set_aside(self._folder(trial.slug), entry.user_attrs["attempt"])
                    self._add(trial, attempt=entry.user_attrs["attempt"] + 1)
                    added += 1
            lease.release()
        return added

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

    def _start(self, trial: PlannedTrial, entry: FrozenTrial, lease: Lease) -> Claim:
        self._storage.set_trial_state_values(self._trial_id(entry.number), TrialState.RUNNING)
        return Claim(
            trial=trial,
            attempt=entry.user_attrs["attempt"],
            number=entry.number,
            lease=lease,
            block=self._blocks[block_of(trial)],
        )

    def _mend(self, trials: Sequence[PlannedTrial]) -> dict[str, FrozenTrial]:
        """Bring back trials whose failure was noted by a worker that was killed before it noted what follows."""
        latest = self._latest()
        failed = [
            trial for trial in trials if trial.key in latest and latest[trial.key].state == TrialState.FAIL
        ]
        for trial in failed:
            record, attempt = self._record(trial.slug), latest[trial.key].user_attrs["attempt"]
            if record is None:
                self._add(trial, attempt=attempt + 1)
            elif record.completed and (trial.purpose == "parity" or (record.times and record.times.steady_s)):
                self._add(trial, attempt=record.identity.attempt)
        return self._latest() if failed else latest

    def _close(self, number: int, record: TrialRecord) -> None:
        timed = record.identity.purpose == "timed"
        steady = record.times.steady_s if timed and record.times and record.completed else None
        trial_id = self._trial_id(number)
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

    def record_of(self, entry: FrozenTrial) -> TrialRecord | None:
        """The record of this attempt; that of another one does not count."""
        record = self._record(entry.user_attrs["slug"])
        return record if record is None or record.identity.attempt == entry.user_attrs["attempt"] else None

    def close_entry(self, entry: FrozenTrial, record: TrialRecord) -> None:
        """End an entry as its record says."""
        self._close(entry.number, record)

    def next_attempt(self, entry: FrozenTrial) -> dict[str, Any]:
        """Set aside what a lost attempt has left; returns the attributes of the next one."""
        attempt = entry.user_attrs["attempt"]
        set_aside(self._folder(entry.user_attrs["slug"]), attempt)
        gone = ("reason", "worker")
        return {**{name: v for name, v in entry.user_attrs.items() if name not in gone}, "attempt": attempt + 1}

    # -- look-ups --------------------------------------------------------------------------------------------------

    def _latest(self) -> dict[str, FrozenTrial]:
        return {entry.user_attrs["key"]: entry for entry in self._optuna.get_trials(deepcopy=False)}

    def _entry(self, number: int) -> FrozenTrial:
        return self._storage.get_trial(self._trial_id(number))

    def _record(self, slug: str) -> TrialRecord | None:
        folder = self._folder(slug)
        return read_record(folder) if (folder / "record.json").exists() else None

    def _folder(self, slug: str) -> Path:
        return self._paths.records / slug

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._store.locked():
            yield


def _waits_for_reference(trial: PlannedTrial, latest: Mapping[str, FrozenTrial]) -> bool:
    """Whether the eager parity trial that a trial restarts from has not ended yet."""
    reference = latest.get(trial.reference or "")
    return reference is not None and not reference.state.is_finished()


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
