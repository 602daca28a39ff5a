"""Planned trials -> which waits, runs or has ended: each stable key is executed once, whoever is killed when.

The record on disk is the truth, the entries (in a journal file or in PostgreSQL) say who works on what. Every method
holds the ledger's lock for a few milliseconds. A worker takes the trials of a workload and block together: another one
gets them only when that worker and its process are gone, and only in the same environment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.files.paths import StudyPaths
from ablate.run.devices import describe_difference
from ablate.run.ledger.backend import Lease, OnWait, Store
from ablate.run.ledger.journal import JournalStore
from ablate.run.ledger.lock_owner import LockOwner
from ablate.run.ledger.trial_queue import TrialQueue, block_of, find_environments, is_begun, waits_for_reference


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
    owner: LockOwner


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
        worker: Environment of this worker (see `ablate.run.devices`); empty = fits every block.
    """

    def __init__(
        self, study: Study, paths: StudyPaths, *, store: Store | None = None, worker: Mapping[str, str] | None = None
    ) -> None:
        self._paths = paths
        self._store: Store = JournalStore(study.name, paths) if store is None else store
        self._queue = TrialQueue(self._store, paths)
        self._worker = dict(worker or {})
        self._owner = LockOwner.here(study=study.name, root=paths.root, device=self._worker.get("device", ""))
        self._blocks: dict[str, Lease] = {}

    @property
    def parent_death(self) -> bool:
        """Whether a trial's process must die with this worker."""
        return self._store.parent_death

    def is_lost(self) -> bool:
        """Whether this worker has lost its leases, so that its trial must end at once."""
        return self._store.is_lost()

    def enqueue(
        self, trials: Sequence[PlannedTrial], *, retry_failed: bool = False, restart_blocks: bool = False
    ) -> int:
        """Make sure that every trial is in the ledger once; done before, this adds only what is missing.

        Args:
            trials: Planned trials, in the order in which they should run.
            retry_failed: Set the records of trials that did not complete aside and enqueue a next attempt of them, in
                blocks that fit this worker.
            restart_blocks: Do so with all records of unfinished blocks that were begun in another environment.

        Returns:
            Number of trials that were added to the queue.
        """
        with self._store.locked():
            self._store.reap(self._queue)
            latest, added = self._queue.latest(), 0
            for trial in trials:
                fits = not retry_failed or not self._difference(trial, trials)
                added += self._queue.add_missing(trial, latest.get(trial.key), retry_failed and fits)
            if restart_blocks:
                added += self._restart_blocks(trials)
            return added

    def not_retried(self, trials: Sequence[PlannedTrial]) -> dict[str, str]:
        """Blocks whose trials that did not complete cannot be tried again by this worker: what differs, by block."""
        failed = [trial for trial in trials if (record := self._queue.record(trial.slug)) and not record.completed]
        return {block_of(trial): said for trial in failed if (said := self._difference(trial, trials))}

    def claim(self, trials: Sequence[PlannedTrial]) -> Claim | Held | Foreign | None:
        """Take the first waiting trial of the list, in list order, from the blocks that this worker has or can take.

        Returns:
            A claim; or who else has some of the trials; or what keeps this worker from the rest; or None when all have
            ended.
        """
        with self._store.locked():
            self._store.reap(self._queue)
            latest = self._queue.mend(trials)
            self._let_go(trials, latest)
            held: PlannedTrial | None = None
            foreign: dict[str, str] = {}
            for trial in trials:
                entry = latest.get(trial.key)
                if entry is None or entry.state.is_finished() or waits_for_reference(trial, latest):
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
                lease = self._store.lease_trial(trial.slug, self._queue.id_of(entry.number))
                if lease is None:
                    held = held or trial
                    continue
                record = self._queue.record(trial.slug)
                if record is None:
                    return self._start(trial, entry, lease)
                self._queue.close(entry.number, record)
                lease.release()
            if held is not None:
                return Held(trial=held, owner=self._store.owner(block_of(held), held.slug))
            return Foreign(differences=foreign) if foreign else None

    def wait(self, held: Held, on_wait: OnWait) -> None:
        """Wait until another worker, or what it left behind, lets go of something; then claim again."""
        self._store.wait(block_of(held.trial), held.trial.slug, on_wait)

    def finish(self, claim: Claim, record: TrialRecord) -> None:
        """Tell the result of a claimed trial and let go of its lease."""
        with self._store.locked():
            if not self._queue.get(claim.number).state.is_finished():  # else somebody has taken it from the record
                self._queue.close(claim.number, record)
            claim.lease.release()

    def put_back(self, claim: Claim) -> None:
        """Let a claimed trial wait again, as if it had never started (Ctrl-C)."""
        with self._store.locked():
            if not self._queue.get(claim.number).state.is_finished():
                self._queue.set_state(claim.number, TrialState.WAITING)
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
        lease.describe(self._owner.to_json())
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
            latest = self._queue.latest()
            if all(latest[trial.key].state.is_finished() for trial in inside):
                continue
            if not self._difference(inside[0], inside) or (lease := self._store.lease_block(block)) is None:
                continue
            for trial in inside:
                entry = latest[trial.key]
                if entry.state.is_finished():
                    self._queue.add_next(trial, entry.user_attrs["attempt"])
                    added += 1
            lease.release()
        return added

    def _start(self, trial: PlannedTrial, entry: FrozenTrial, lease: Lease) -> Claim:
        self._queue.set_state(entry.number, TrialState.RUNNING)
        return Claim(
            trial=trial,
            attempt=entry.user_attrs["attempt"],
            number=entry.number,
            lease=lease,
            block=self._blocks[block_of(trial)],
        )
