"""What decides how a trial trains: versions of installed packages, the code of ablate and of plug-ins on the disk."""

from __future__ import annotations

import hashlib
import importlib.util
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

PACKAGES = ("torch", "torch-geometric", "pytorch-frame", "relbench", "lightning", "torchmetrics", "numpy", "pandas",
            "optuna", "ablate-study")  # fmt: skip
TRAINS = ("core", "files", "plugins", "records", "workloads", "optimizations", "train")  # what a trial runs
PLUG_INS = ("ablate.optimizations", "ablate.workloads")  # groups of entry points
EXTENSIONS = ("pyg-lib", "structured-data-models-relational-engine", "torch-scatter", "torch-sparse", "triton")


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, None when it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def training_code() -> str:
    """Digest (12 hex digits) of the source files that a trial runs, so that edited code is another environment.

    Of an installed plug-in these are its module and the version of its distribution.
    """
    root = Path(__file__).parents[1]
    files = {path.relative_to(root).as_posix(): path for folder in TRAINS for path in (root / folder).rglob("*.py")}
    for entry in (entry for group in PLUG_INS for entry in entry_points(group=group)):
        found = importlib.util.find_spec(entry.module)
        if found is not None and found.origin is not None:
            files[f"{entry.group} {entry.value} {entry.dist.version if entry.dist else ''}"] = Path(found.origin)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
