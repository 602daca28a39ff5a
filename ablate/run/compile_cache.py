"""A trial and the study's cache policy -> its compile-cache folder and whether it starts cold, warm or shared."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ablate.core.cell import PlannedTrial
from ablate.core.paths import StudyPaths
from ablate.core.record import CacheState
from ablate.core.study import CachePolicy

MARKER = "filled-by.json"


@dataclass(frozen=True, kw_only=True)
class CompileCache:
    """Compile cache of one trial.

    Attributes:
        folder: Value of `TORCHINDUCTOR_CACHE_DIR`.
        state: What the record says about it.
        marker: File that is written once the trial completed; its presence makes the next trial of the cell warm.
        remove_after: Delete the folder when the trial has ended.
    """

    folder: Path
    state: CacheState
    marker: Path | None = None
    remove_after: bool = False


def open_cache(policy: CachePolicy, trial: PlannedTrial, paths: StudyPaths) -> CompileCache:
    """Prepare the compile cache of a trial.

    A cache is warm only when an earlier trial of the same cell completed with the same Python and torch; otherwise the
    folder is wiped, because leftovers of a killed trial would make a start neither cold nor warm.
    """
    root = paths.compile_cache
    if trial.cell.cell.execution == "eager":
        return CompileCache(folder=root / "eager", state="not-compiled")
    if policy == "shared":
        (root / "shared").mkdir(parents=True, exist_ok=True)
        return CompileCache(folder=root / "shared", state="shared")
    if policy == "none":
        return CompileCache(folder=_wiped(root / "fresh" / trial.slug), state="cold", remove_after=True)
    place = root / re.sub(r"[^A-Za-z0-9_.-]+", "-", trial.workload) / _digest(trial.cell.effective_key)
    marker = place / MARKER
    if _marker_fits(marker):
        return CompileCache(folder=place / "cache", state="warm", marker=marker)
    marker.unlink(missing_ok=True)
    return CompileCache(folder=_wiped(place / "cache"), state="cold", marker=marker)


def close_cache(cache: CompileCache, *, completed_key: str | None) -> None:
    """Settle the cache after a trial; `completed_key` is the trial's key when it completed, else None."""
    if cache.remove_after:
        shutil.rmtree(cache.folder, ignore_errors=True)
    if cache.marker is not None and completed_key is not None:
        content = {"trial": completed_key, **_stack()}
        cache.marker.write_text(json.dumps(content) + "\n", encoding="utf-8")


def _marker_fits(marker: Path) -> bool:
    try:
        content = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and all(content.get(name) == value for name, value in _stack().items())


def _stack() -> dict[str, str]:
    """Versions whose change makes a filled cache worthless."""
    try:
        torch_version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch_version = "absent"
    return {"python": sys.version.split()[0], "torch": torch_version}


def _wiped(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _digest(effective_key: str) -> str:
    return hashlib.sha256(effective_key.encode()).hexdigest()[:16]
