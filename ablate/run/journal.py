"""A ledger file -> an Optuna study over it that survives kill -9 and never samples a value by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, cast

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from ablate.core.errors import StoredDataError
from ablate.run.locks import short_lock


class KernelLock:
    """Lock of the journal file that the kernel frees when its holder dies (Optuna's own waits 30 s for a dead one)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: list[Any] = []

    def acquire(self) -> bool:
        held = short_lock(self._path)
        held.__enter__()
        self._held.append(held)
        return True

    def release(self) -> None:
        self._held.pop().__exit__(None, None, None)


class RefusingSampler(optuna.samplers.BaseSampler):
    """A sampler that refuses to sample: every value of every trial comes from the design."""

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, Any]:
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
    lock = cast(JournalFileSymlinkLock, KernelLock(path.with_name(path.name + ".write-lock")))
    with explain_damage(path):
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
        study = optuna.create_study(
            study_name=study_name,
            storage=storage,
            sampler=RefusingSampler(),
            direction="minimize",
            load_if_exists=True,
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
        content = path.read_bytes()
    except FileNotFoundError:
        return
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as stream:
            stream.truncate(whole)
