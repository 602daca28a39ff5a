"""What decides how a trial trains: versions of installed packages, and ablate's own code as it lies on the disk."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "torch-geometric", "pytorch-frame", "relbench", "lightning", "torchmetrics", "numpy", "pandas",
            "optuna", "ablate-study")  # fmt: skip
TRAINS = ("core", "data", "workloads", "optimizations", "train")  # folders of ablate that a trial's process runs
EXTENSIONS = ("pyg-lib", "torch-scatter", "torch-sparse", "triton")


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, None when it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def training_code() -> str:
    """Digest (12 hex digits) of the source files that a trial runs, so that edited code is another environment."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for folder in TRAINS for path in (root / folder).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
