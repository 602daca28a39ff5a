"""The real command line in a process of its own with the fake trainer, and disks that are full or closed for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
TRAINER = (sys.executable, str(TESTS / "fault_train.py"))
START = """
import sys
import ablate.run.runner, ablate.cli.pipeline
from fault_parts import TRAINER
ablate.run.runner.TRAIN_COMMAND = TRAINER
"""
NO_TRACKING = """
ablate.cli.pipeline.make_tracking = lambda *_: lambda folder: None
ablate.cli.pipeline.send_study = lambda paths, uri: None
"""
MAIN = """
from ablate.cli import main
sys.exit(main())
"""
SPEC = """\
study: small
question: Does it work?
workloads: [hm/user-churn]
data: {dataset: look-alike, scale: tiny}
optimizations: {dynamic_shapes: both, tensor_lr: both}
design: [eager, naive, full]
blocks: 1
timing: {epochs: 3, steps_per_epoch: 4}
compile_backend: eager
equivalence: {parity: "off"}
device: cpu
"""


def write_spec(folder: Path, text: str = SPEC) -> Path:
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def call_ablate(
    folder: Path, *arguments: object, tracking: bool = False, before: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `ablate ARGUMENTS` in a folder; `before` is code that runs first (a fault to inject into that process)."""
    code = before + START + ("" if tracking else NO_TRACKING) + MAIN
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "COLUMNS": "160",
            "FAKE_LOG": str(folder / "log.txt"),
            "ABLATE_CACHE": str(folder / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def mount(*arguments: str) -> None:
    """Call `mount`, or skip the test where that is not allowed."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if "permission denied" in done.stderr.lower() or "must be superuser" in done.stderr:
        pytest.skip("mounting a disk takes the rights of root")
    assert done.returncode == 0, done.stderr


def close_disk(folder: Path) -> None:
    """Make a mounted file system read-only, as the kernel does with a disk that fails."""
    mount("-o", "remount,ro", str(folder))


def open_disk(folder: Path) -> None:
    """Make it writable again."""
    mount("-o", "remount,rw", str(folder))


def fill(disk: Path, free: int) -> Path:
    """Take all but `free` bytes of a disk."""
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - free))
    return filler
