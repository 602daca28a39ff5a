"""A trial and the study's cache policy -> its compile-cache folder and whether it starts cold, warm or shared.

With `per-cell` the first block of a cell compiles from an empty folder, whenever and however often it is trained, and
later blocks start from a folder that a completed trial of that cell has filled. Whether one has is read from its
record, which an orphan writes as well; so nothing has to be told when a trial ends. Every cold start has a folder of
its own, which stays where it is: compiled code names its path. Parity trials have caches apart: they are compiled with
other settings, and must not warm a timed trial.
"""

import hashlib
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from ablate.core.cell import PlannedTrial
from ablate.core.record import CacheState
from ablate.core.study import CachePolicy
from ablate.files.paths import StudyPaths
from ablate.records.store import read_json, read_record, write_json

STARTED_BY = "started-by.json"


@dataclass(frozen=True, kw_only=True)
class StartedBy:
    """The trial that started cold in a folder, and what it compiled for: elsewhere that is worthless."""

    slug: str
    attempt: int
    python: str
    torch: str
    machine: str = ""


@dataclass(frozen=True, kw_only=True)
class CompileCache:
    """Compile cache of one trial.

    Attributes:
        folder: Value of `TORCHINDUCTOR_CACHE_DIR`.
        state: What the record says about it.
        remove: What is removed when the trial has ended, and when.
    """

    folder: Path
    state: CacheState
    remove: Literal["never", "unless completed", "always"] = "never"


def open_cache(
    policy: CachePolicy, trial: PlannedTrial, attempt: int, paths: StudyPaths, machine: str = ""
) -> CompileCache:
    """Prepare the compile cache of a trial whose lease is held.

    Args:
        policy: As the study says.
        trial: The trial.
        attempt: Which attempt of it.
        paths: Files of the study, perhaps shared by several hosts.
        machine: Host and device; what was compiled on another one does not make a warm start.
    """
    root = paths.compile_cache / "parity" if trial.purpose == "parity" else paths.compile_cache
    if not trial.cell.compiles:
        return CompileCache(folder=root / "eager", state="not-compiled")
    if policy == "shared":
        (root / "shared").mkdir(parents=True, exist_ok=True)
        return CompileCache(folder=root / "shared", state="shared")
    if policy == "none":
        return CompileCache(folder=_wiped(root / "fresh" / trial.slug), state="cold", remove="always")
    cell = root / re.sub(r"[^A-Za-z0-9_.-]+", "-", trial.workload) / _digest(trial.cell.effective_key)
    filled = None if trial.block == 0 else _find_filled(cell, paths, machine)
    if filled is not None:
        return CompileCache(folder=filled, state="warm")
    folder = _wiped(cell / f"b{trial.block:02d}-attempt-{attempt}")
    write_json(folder / STARTED_BY, _started_by(trial.slug, attempt, machine))
    return CompileCache(folder=folder, state="cold", remove="unless completed")


def close_cache(cache: CompileCache, *, completed: bool) -> None:
    """Remove what nobody can use again, after a trial whose process is gone."""
    if cache.remove == "always" or (cache.remove == "unless completed" and not completed):
        shutil.rmtree(cache.folder, ignore_errors=True)


def _find_filled(cell: Path, paths: StudyPaths, machine: str) -> Path | None:
    """The folder of the earliest cold start of a cell that completed here with today's Python and torch."""
    for path in sorted(cell.glob(f"*/{STARTED_BY}")):
        try:
            found = read_json(path, StartedBy)
        except FileNotFoundError:  # another worker has just removed it: its trial failed
            continue
        record_folder = paths.records / found.slug
        if found != _started_by(found.slug, found.attempt, machine) or not (record_folder / "record.json").exists():
            continue
        record = read_record(record_folder)
        if record.completed and (record.cache_state, record.identity.attempt) == ("cold", found.attempt):
            return path.parent
    return None


def _started_by(slug: str, attempt: int, machine: str) -> StartedBy:
    try:
        torch_version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch_version = "absent"
    return StartedBy(slug=slug, attempt=attempt, python=sys.version.split()[0], torch=torch_version, machine=machine)


def _wiped(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _digest(effective_key: str) -> str:
    return hashlib.sha256(effective_key.encode()).hexdigest()[:16]
