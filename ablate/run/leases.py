"""A trial's slug or a block -> its lease file, which is locked exactly while somebody trains that trial or block."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablate.core.paths import StudyPaths
from ablate.run.locks import is_held, read_holder


def lease_path(paths: StudyPaths, slug: str) -> Path:
    """Lock file of one trial."""
    return paths.leases / f"{slug}.lock"


def block_lease_path(paths: StudyPaths, block: str) -> Path:
    """Lock file of one block (see `ablate.run.blocks`)."""
    return paths.leases / "blocks" / f"{block}.lock"


def is_running(paths: StudyPaths, slug: str) -> bool:
    """Tell whether a process trains this trial right now, on this host."""
    return is_held(lease_path(paths, slug))


def find_leased(paths: StudyPaths) -> dict[str, Mapping[str, Any]]:
    """Slugs of the trials that are trained on this host right now, and who trains them (see `ablate.run.holders`)."""
    held = (path for path in sorted(paths.leases.glob("*.lock")) if is_held(path))
    return {path.stem: read_holder(path) for path in held}
