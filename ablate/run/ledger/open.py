"""A study, its folder and perhaps an address -> the store of its ledger, the same one for every worker."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.paths import StudyPaths
from ablate.records.store import read_json, write_json
from ablate.run.ledger.backend import Store
from ablate.run.ledger.journal import JournalStore
from ablate.run.ledger.lock_owner import LockOwner

ADDRESS_VARIABLE, HEARTBEAT_VARIABLE = "ABLATE_LEDGER", "ABLATE_HEARTBEAT_S"
HEARTBEAT_S = 20


@dataclass(frozen=True, kw_only=True)
class LedgerNote:
    """`ledger.json` beside the records: where the ledger is (without a password), and the identity of this folder."""

    address: str
    records: str


def find_address(study: Study, given: str | None = None) -> str | None:
    """Address of the ledger: as given, else of `ABLATE_LEDGER`, else of the spec; None = a file beside the records."""
    return given or os.environ.get(ADDRESS_VARIABLE) or study.ledger


def open_store(
    study: Study, paths: StudyPaths, *, address: str | None = None, worker: Mapping[str, str] | None = None
) -> Store:
    """Open the ledger of a study, made anew when there is none.

    Args:
        study: The study.
        paths: Its files.
        address: Address of a PostgreSQL database (see `find_address`); None = a journal file beside the records.
        worker: Environment of this worker.

    Raises:
        UserError: the study has its ledger elsewhere, or the database cannot be used.
        StoredDataError: the journal cannot be replayed.
    """
    note = paths.root / "ledger.json"
    if address is None:
        if note.exists():
            where = read_json(note, LedgerNote).address
            raise UserError(
                f"study {study.name} has its ledger at {where}; name it with --ledger or {ADDRESS_VARIABLE}"
            )
        return JournalStore(study.name, paths)
    if paths.ledger.exists():
        raise UserError(
            f"study {study.name} has its ledger in {paths.ledger}; to go on with PostgreSQL, wait until no worker runs "
            "and move that file away: the ledger is rebuilt from the trial records"
        )
    from ablate.run.ledger.postgresql import PostgresStore, visible_address

    records = _identity(note, visible_address(address))
    owner = LockOwner.here(study=study.name, root=paths.root, device=(worker or {}).get("device", ""))
    return PostgresStore(address, study.name, records, _heartbeat_s(), owner)


def find_running(study: Study, paths: StudyPaths, address: str | None) -> dict[str, LockOwner] | None:
    """Slugs of the trials that are trained right now on any host, and who trains them.

    Returns:
        None when the ledger is no database, or none that is named here: then the leases of this host tell.
    """
    if address is None or not (paths.root / "ledger.json").exists():
        return None
    from ablate.run.ledger.postgresql import find_owners

    store = open_store(study, paths, address=address)
    try:
        with store.locked():
            return find_owners(store.optuna_study)
    finally:
        store.close()


def _identity(note: Path, visible: str) -> str:
    """The identity of the folder of the records; the first worker writes it."""
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=note.parent, prefix=".ledger-") as folder:
            mine = Path(folder) / note.name
            write_json(mine, LedgerNote(address=visible, records=secrets.token_hex(8)))
            with contextlib.suppress(FileExistsError):  # another worker was first
                os.link(mine, note)
    return read_json(note, LedgerNote).records


def _heartbeat_s() -> int:
    text = os.environ.get(HEARTBEAT_VARIABLE) or str(HEARTBEAT_S)
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise UserError(f"{HEARTBEAT_VARIABLE} is {text!r}; give whole seconds from 1 to 3600")
    return int(text)
