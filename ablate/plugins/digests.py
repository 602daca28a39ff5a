"""What decides how a trial trains: versions of installed packages, the code of ablate and of plug-ins on the disk."""

import hashlib
import importlib.util
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

PACKAGES = ("torch", "torch-geometric", "pytorch-frame", "relbench", "lightning", "torchmetrics", "numpy", "pandas",
            "optuna", "ablate-study")  # fmt: skip
READS = ("analysis", "track", "figures", "report", "cli")  # rooms that only read records; all others count as training
PLUG_INS = ("ablate.optimizations", "ablate.workloads")  # groups of entry points
EXTENSIONS = ("pyg-lib", "structured-data-models-relational-engine", "torch-scatter", "torch-sparse", "triton")


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, None when it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def processor_name() -> str:
    """What the processor is called, as the kernel says it, else as Python does."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine() or "CPU"


def training_code() -> str:
    """Digest (12 hex digits) of the source that decides how a trial trains, so that edited code is another environment.

    That is all of ablate but the rooms that only read records. Of an installed plug-in it is its module and the version
    of its distribution.
    """
    root = Path(__file__).parents[1]
    sources = {path.relative_to(root): path for path in root.rglob("*.py")}
    files = {place.as_posix(): path for place, path in sources.items() if place.parts[0] not in READS}
    for entry in (entry for group in PLUG_INS for entry in entry_points(group=group)):
        found = importlib.util.find_spec(entry.module)
        if found is not None and found.origin is not None:
            files[f"{entry.group} {entry.value} {entry.dist.version if entry.dist else ''}"] = Path(found.origin)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
