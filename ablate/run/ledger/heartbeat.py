"""Advisory locks on a connection -> held, made anew, or known as lost: a thread sends heartbeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from ablate.core.errors import UserError

NUM_TO_FENCE = 3  # heartbeats missed: then a worker ends its trial
NUM_TO_DROP = 4  # then the server drops the connection of a host that is gone
NUM_TO_STALE = 6  # then others take its trial over
RETRY_S = 1.0  # between two tries while the server is away


class Heartbeat:
    """Holds locks of PostgreSQL on one connection, and says every few seconds that this worker lives.

    A worker whose database is gone, or that was cut off from it, knows by its own clock that it is silent for too long:
    `is_lost` is then true, long before anybody else takes its trial over.
    """

    def __init__(self, engine: Engine, name: str, storage: RDBStorage, interval_s: float) -> None:
        self._engine, self._name, self._storage, self._interval_s = engine, name, storage, interval_s
        self._mutex, self._stop = threading.Lock(), threading.Event()
        self._keys: set[int] = set()
        self._trial_id: int | None = None
        self._connection: Connection | None = None
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._send, name="heartbeat", daemon=True)
        self._thread.start()

    def try_lock(self, key: int) -> bool:
        """Take an advisory lock that ends with this process's connection; False when another one has it."""
        with self._mutex:
            if not _one(self._connected(), "SELECT pg_try_advisory_lock(:key)", key=key):
                return False
            self._keys.add(key)
            self._last = time.monotonic()
            return True

    def unlock(self, key: int) -> None:
        with self._mutex:
            if key not in self._keys:
                return
            self._keys.discard(key)
            if self._connection is not None and not self._connection.invalidated:
                with suppress(SQLAlchemyError):  # a lost connection has lost the lock as well
                    _one(self._connection, "SELECT pg_advisory_unlock(:key)", key=key)

    def watch(self, trial_id: int | None) -> None:
        """Send heartbeats for this trial from now on; None for no trial."""
        with self._mutex:
            if trial_id is not None:
                self._storage.record_heartbeat(trial_id)
                self._last = time.monotonic()
            self._trial_id = trial_id

    def is_lost(self) -> bool:
        """Whether this worker was silent for so long that it must end its trial."""
        return time.monotonic() - self._last > NUM_TO_FENCE * self._interval_s

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _send(self) -> None:
        wait_s = self._interval_s
        while not self._stop.wait(wait_s):
            try:
                with self._mutex:
                    _one(self._connected(), "SELECT 1")
                    if self._trial_id is not None:
                        self._storage.record_heartbeat(self._trial_id)
                    self._last = time.monotonic()
                wait_s = self._interval_s
            except (SQLAlchemyError, StorageInternalError, TakenError):
                wait_s = min(RETRY_S, self._interval_s)  # `is_lost` tells when that has gone on for too long
        self._storage.remove_session()

    def _connected(self) -> Connection:
        """The connection, made anew with all its locks when it was lost.

        Raises:
            TakenError: another worker has got one of the locks.
        """
        if self._connection is not None and not self._connection.invalidated:
            try:
                _one(self._connection, "SELECT 1")
                return self._connection
            except SQLAlchemyError:
                self._drop()
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        former = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        former += " WHERE application_name = :name AND usename = current_user AND pid <> pg_backend_pid()"
        connection.execute(text(former), {"name": self._name})
        for key in self._keys:
            if not _one(connection, "SELECT pg_try_advisory_lock(:key)", key=key):
                connection.close()
                raise TakenError(
                    "another worker has taken over a block of this one, which could not reach the ledger for some "
                    "time; start it again"
                )
        self._connection = connection
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


class AdvisoryLease:
    """A lease that ends when the connection of its worker does."""

    descriptors: tuple[int, ...] = ()

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def describe(self, owner: object) -> None:
        return

    def release(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    def __enter__(self) -> AdvisoryLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class TakenError(UserError):
    """A lock that this worker had is held by another one."""


def _one(connection: Connection, statement: str, **values: object) -> object:
    return connection.execute(text(statement), values).scalar()
