"""A ledger file -> an Optuna study over it that survives kill -9 and never samples a value by itself; its leases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import TrialState

from ablate.core.errors import StoredDataError
from ablate.files.locks import FileLock, is_held, read_owner, short_lock, wait_for
from ablate.files.paths import StudyPaths
from ablate.run.ledger.backend import OnWait
from ablate.run.ledger.lock_owner import LockOwner, block_lease_path, lease_path

if TYPE_CHECKING:
    from ablate.run.ledger.trial_queue import TrialQueue

LOST = "lost lease"


class KernelLock:
    """Lock of the journal file that the kernel frees when its holder dies (Optuna's own waits 30 s for a dead one)."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._path = journal.with_name(journal.name + ".write-lock")
        self._held: list[Any] = []

    def acquire(self) -> bool:
        held = short_lock(self._path)
        held.__enter__()
        self._held.append(held)
        _drop_torn_line(self._journal)  # of a worker that was killed while it wrote
        return True

    def release(self) -> None:
        self._held.pop().__exit__(None, None, None)


class RefusingSampler(optuna.samplers.BaseSampler):
    """A sampler that refuses to sample: every value of every trial comes from the design."""

    def infer_relative_search_space(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, search_space: dict[str, Any]
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, param_name: str, param_distribution: Any
    ) -> NoReturn:
        raise RuntimeError(f"the design gives no value for {param_name}; a ledger never samples")


def open_journal(path: Path, study_name: str) -> tuple[JournalStorage, optuna.Study]:
    """Open or create the ledger of a study; call it under the ledger's lock.

    Raises:
        StoredDataError: the journal cannot be replayed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    lock = cast(JournalFileSymlinkLock, KernelLock(path))
    with explain_damage(path):
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
        study = optuna.create_study(
            study_name=study_name, storage=storage, sampler=RefusingSampler(), direction="minimize", load_if_exists=True
        )
    return storage, study


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
    """Turn what a damaged journal raises into one sentence."""
    try:
        yield
    except (ValueError, KeyError) as error:
        raise StoredDataError(
            f"{path} cannot be read ({error}); move it away and run again: it is rebuilt from the trial records"
        ) from error


def _drop_torn_line(path: Path) -> None:
    """Cut off a last line that a full disk or a crash left half written; its operation never took effect."""
    try:
        stream = path.open("r+b")
    except FileNotFoundError:
        return
    with stream:
        size = stream.seek(0, os.SEEK_END)
        if size and (stream.seek(size - 1), stream.read(1))[1] != b"\n":
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)


class JournalStore:
    """A ledger in a file, for the workers of one host; a lease is a locked file that the trial's process inherits.

    So a worker that is killed leaves its block and its trial held for exactly as long as its orphan trains.
    """

    storage: BaseStorage
    parent_death: bool = False

    def __init__(self, study_name: str, paths: StudyPaths) -> None:
        self._paths = paths
        with short_lock(self._lock_path):
            self.storage, self.optuna_study = open_journal(paths.ledger, study_name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        with short_lock(self._lock_path), explain_damage(self._paths.ledger):
            yield

    def reap(self, queue: TrialQueue) -> None:
        for entry in self.optuna_study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            lease = FileLock.try_acquire(lease_path(self._paths, entry.user_attrs["slug"]))
            if lease is None:
                continue
            with lease:
                record = queue.record_of(entry)
                if record is not None:
                    queue.close_entry(entry, record)
                    continue
                attributes = queue.next_attempt(entry)
                self.storage.set_trial_user_attr(entry._trial_id, "reason", LOST)
                self.storage.set_trial_state_values(entry._trial_id, TrialState.FAIL)
                self.optuna_study.enqueue_trial({}, user_attrs=attributes)

    def lease_block(self, block: str) -> FileLock | None:
        return FileLock.try_acquire(block_lease_path(self._paths, block))

    def lease_trial(self, slug: str, trial_id: int) -> FileLock | None:
        return FileLock.try_acquire(lease_path(self._paths, slug))

    def owner(self, block: str, slug: str) -> LockOwner:
        path = lease_path(self._paths, slug)
        return LockOwner.parse(read_owner(path if is_held(path) else block_lease_path(self._paths, block)))

    def wait(self, block: str, slug: str, on_wait: OnWait) -> None:
        for path in (lease_path(self._paths, slug), block_lease_path(self._paths, block)):
            wait_for(path, lambda content: on_wait(LockOwner.parse(content))).release()

    def is_lost(self) -> bool:
        return False

    def close(self) -> None:
        return

    @property
    def _lock_path(self) -> Path:
        return self._paths.ledger.with_name(self._paths.ledger.name + ".lock")
