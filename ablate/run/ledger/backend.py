"""What a ledger needs from whatever keeps it (a journal file, PostgreSQL) -> `Store`, and its leases: lock files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import optuna
from optuna.storages import BaseStorage

from ablate.run.ledger.lock_owner import LockOwner

if TYPE_CHECKING:
    from ablate.run.ledger.trial_queue import TrialQueue

OnWait = Callable[[LockOwner], None]


class Lease(Protocol):
    """Something that one worker holds and that ends with its owner."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the trial's process inherits to hold the lease as well; empty when it dies with the worker instead."""

    def describe(self, owner: Mapping[str, Any]) -> None:
        """Say who holds it, for whoever waits."""

    def release(self) -> None:
        """Let go of it; once more does nothing."""

    def __enter__(self) -> Lease:
        """Hold it inside of a `with`."""

    def __exit__(self, *_: object) -> None:
        """Let go of it."""


class Store(Protocol):
    """Keeps the trial queue of a ledger, and says which of them are lost.

    Attributes:
        storage: Optuna's storage.
        optuna_study: Optuna's study in it.
        parent_death: Whether a trial's process must die with its worker, because no lease lives on in it.
    """

    storage: BaseStorage
    optuna_study: optuna.Study
    parent_death: bool

    def locked(self) -> AbstractContextManager[None]:
        """Hold the ledger for a few milliseconds of bookkeeping; every other method is called inside."""

    def reap(self, queue: TrialQueue) -> None:
        """Close every running entry whose worker and process are both gone, or let its trial run once more."""

    def lease_block(self, block: str) -> Lease | None:
        """Take a block for this worker; None while another worker, or a process it left behind, has it."""

    def lease_trial(self, slug: str, trial_id: int) -> Lease | None:
        """Take a trial of a block that this worker has; None while a process left behind trains it."""

    def owner(self, block: str, slug: str) -> LockOwner:
        """Who has a block or a trial, as far as it said so."""

    def wait(self, block: str, slug: str, on_wait: OnWait) -> None:
        """Wait, outside of `locked`, until it makes sense to ask again; `on_wait` may be called several times."""

    def is_lost(self) -> bool:
        """Whether this worker has lost its leases, so that its trial must end at once."""

    def close(self) -> None:
        """Let go of everything that is still held."""
