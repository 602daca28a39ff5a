"""The installed packages whose versions decide how a trial trains, and those that do when they are there."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("torch", "torch-geometric", "pytorch-frame", "relbench", "lightning", "torchmetrics", "numpy", "pandas",
            "optuna", "ablate-study")  # fmt: skip
EXTENSIONS = ("pyg-lib", "torch-scatter", "torch-sparse", "triton")


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, None when it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
