"""The address of a PostgreSQL database -> a ledger that workers of several hosts share.

A block is an advisory lock on its worker's connection: the server frees it when that worker is gone. A running trial
has Optuna's heartbeats: others take it over when they have stopped for six intervals. Its process dies with its
worker, and a worker that cannot reach the database ends its trial after three: nothing trains any more when it is taken
over. All intervals are measured by the server's clock, or by one process's own: hosts need no common time.
"""

from __future__ import annotations

import hashlib
import secrets
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ablate.core.errors import UserError
from ablate.run.ledger.backend import OnWait
from ablate.run.ledger.heartbeat import NUM_TO_DROP, NUM_TO_FENCE, NUM_TO_STALE, AdvisoryLease, Heartbeat
from ablate.run.ledger.journal import RefusingSampler
from ablate.run.ledger.lock_owner import LockOwner

if TYPE_CHECKING:
    from ablate.run.ledger.trial_queue import TrialQueue

LOOK_S = 1.0  # between two looks at whether another worker let go of something, or the server is back
PATIENCE_S = 10.0  # with a server that restarts while a worker starts; a wrong address is told as soon
RECORDS = "records"  # study attribute: identity of the folder of the records
HEARTBEAT = "heartbeat_s"


class PostgresStore:
    """A ledger in PostgreSQL.

    Args:
        address: As given, with its password if any.
        study_name: Name of the study.
        records: Identity of the folder of the records (see `ablate.run.ledger.open`), the same for every worker.
        heartbeat_s: Seconds between two signs of life of a worker; the first worker's value holds for all.
        owner: What others are told of this worker.

    Raises:
        UserError: the address is not one of PostgreSQL, the database cannot be reached, or it has a study of this name
            with another folder.
    """

    storage: BaseStorage
    parent_death: bool = True

    def __init__(self, address: str, study_name: str, records: str, heartbeat_s: int, owner: LockOwner) -> None:
        url = parse_address(address)
        self.visible = visible_address(address)
        self._study_name, self._owner = study_name, owner
        self._patience_s = PATIENCE_S
        self._engine = create_engine(url, connect_args=_options("ablate", heartbeat_s), poolclass=NullPool)
        with warnings.catch_warnings(), self.locked():
            warnings.simplefilter("ignore", ExperimentalWarning)  # heartbeats are, in Optuna's words
            self._callback = _NextAttempt()
            self._rdb = RDBStorage(
                url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}"),
                engine_kwargs={"pool_pre_ping": True, "connect_args": _options("ablate", heartbeat_s)},
                heartbeat_interval=heartbeat_s,
                grace_period=NUM_TO_STALE * heartbeat_s,
                heartbeat_stale_trial_callback=self._callback,
            )
            self.storage = self._rdb
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            self.optuna_study = optuna.create_study(
                study_name=study_name,
                storage=self._rdb,
                sampler=RefusingSampler(),
                direction="minimize",
                load_if_exists=True,
            )
            self._agree(records, heartbeat_s)
        name = f"ablate-{secrets.token_hex(8)}"
        engine = create_engine(url, connect_args=_options(name, self._heartbeat_s), poolclass=NullPool)
        self._heartbeat = Heartbeat(engine, name, self._rdb, self._heartbeat_s)

    def _agree(self, records: str, heartbeat_s: int) -> None:
        study_id = self._rdb.get_study_id_from_name(self._study_name)
        known = self._rdb.get_study_user_attrs(study_id)
        for attribute, value in ((RECORDS, records), (HEARTBEAT, heartbeat_s)):
            if attribute not in known:
                self._rdb.set_study_user_attr(study_id, attribute, value)
        if known.get(RECORDS, records) != records:
            raise UserError(
                f"the ledger at {self.visible} has a study {self._study_name} whose records lie in another folder; "
                "every worker needs that one folder (--runs), a study of its own needs another name"
            )
        self._heartbeat_s = int(known.get(HEARTBEAT, heartbeat_s))
        self._patience_s = max(PATIENCE_S, NUM_TO_FENCE * self._heartbeat_s)
        self._rdb.heartbeat_interval = self._heartbeat_s
        self._rdb.grace_period = NUM_TO_STALE * self._heartbeat_s

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._explained(), self._patiently() as connection, connection.begin():
            key = _key(self._study_name)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
            yield

    def reap(self, queue: TrialQueue) -> None:
        for entry in self.optuna_study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            record = queue.record_of(entry)
            if record is not None and record.completed:  # final, whether its worker lives or not
                queue.close_entry(entry, record)
        self._callback.queue = queue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            fail_stale_trials(self.optuna_study)

    def lease_block(self, block: str) -> AdvisoryLease | None:
        key = _key(self._study_name, block)
        return AdvisoryLease(lambda: self._heartbeat.unlock(key)) if self._heartbeat.try_lock(key) else None

    def lease_trial(self, slug: str, trial_id: int) -> AdvisoryLease | None:
        self._heartbeat.watch(trial_id)
        self._rdb.set_trial_user_attr(trial_id, "worker", self._owner.to_json())
        return AdvisoryLease(lambda: self._heartbeat.watch(None))

    def owner(self, block: str, slug: str) -> LockOwner:
        return find_owners(self.optuna_study).get(slug, LockOwner())

    def wait(self, block: str, slug: str, on_wait: OnWait) -> None:
        with self.locked():
            owner = self.owner(block, slug)
        on_wait(owner)
        time.sleep(LOOK_S)

    def is_lost(self) -> bool:
        return self._heartbeat.is_lost()

    def close(self) -> None:
        self._heartbeat.close()
        self._rdb.remove_session()
        self._rdb.engine.dispose()

    @contextmanager
    def _patiently(self) -> Iterator[Any]:
        """A connection; a server that restarts is given some time."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                connection = self._engine.connect()
                break
            except SQLAlchemyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)
        with connection:
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as error:
            said = _first_words(error)
            raise UserError(
                f"the ledger at {self.visible} cannot be used ({said}); start again when it can, every finished trial "
                "is kept"
            ) from error


class _NextAttempt(RetryHeartbeatStaleTrialCallback):
    """Enqueues a trial whose heartbeats have stopped as its next attempt, unless it has left a record."""

    queue: TrialQueue

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        if self.queue.record_of(trial) is None:
            trial.user_attrs = self.queue.next_attempt(trial)
            super().__call__(study, trial)


def find_owners(study: optuna.Study) -> dict[str, LockOwner]:
    """Who trains each running trial, by its slug; called inside of `locked`."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return {entry.user_attrs["slug"]: LockOwner.parse(entry.user_attrs.get("worker", {})) for entry in running}


def parse_address(address: str) -> URL:
    """Read the address of a database.

    Raises:
        UserError: it is not one of PostgreSQL, or its driver is not installed. The address is not repeated: it may
            hold a password.
    """
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # a port that is no number is a ValueError
        url = None
    if url is None or url.get_backend_name() not in ("postgresql", "postgres") or not url.database:
        raise UserError("the ledger's address is not one of PostgreSQL; it reads postgresql://user@host/database")
    try:
        import psycopg2  # noqa: F401
    except ImportError as error:
        raise UserError("a ledger in PostgreSQL needs its driver: pip install 'ablate-study[postgresql]'") from error
    return url.set(drivername="postgresql+psycopg2")


def visible_address(address: str) -> str:
    """The address without its password, which its query may hold too."""
    url = parse_address(address)
    query = {name: value for name, value in url.query.items() if "password" not in name and "secret" not in name}
    shown = URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)
    return shown.render_as_string()


def _first_words(error: BaseException) -> str:
    """What the driver said, without what SQLAlchemy and Optuna add."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _options(name: str, heartbeat_s: int) -> dict[str, Any]:
    """How a connection behaves when the other end is gone: the server drops it, after `NUM_TO_DROP` or so."""
    idle_s = max(1, NUM_TO_DROP * heartbeat_s // 2)
    every_s = max(1, idle_s // 3)
    server = f"-c tcp_keepalives_idle={idle_s} -c tcp_keepalives_interval={every_s} -c tcp_keepalives_count=3"
    return {
        "connect_timeout": 10,
        "application_name": name,
        "keepalives_idle": idle_s,
        "keepalives_interval": every_s,
        "keepalives_count": 3,
        "tcp_user_timeout": 1000 * NUM_TO_DROP * heartbeat_s,
        "options": f"-c timezone=UTC -c lock_timeout=60s {server}",
    }


def _key(*parts: str) -> int:
    """The number of an advisory lock."""
    digest = hashlib.sha256("\0".join(("ablate", *parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
