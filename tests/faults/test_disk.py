"""A disk that is full or closed: one sentence, what to do, and every finished trial is still there afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.run.outcome import RunOutcome
from ablate.run.progress import SilentProgress
from ablate.run.study import run_study
from run_parts import FAKE_COMMAND, make_run, read_log, read_statuses

PAGE = 4096


def run_small(folder: Path) -> RunOutcome:
    study, design, paths = make_run(folder)
    return run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)


def fill(disk: Path, free: int) -> Path:
    """Take all but `free` bytes of a disk."""
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - free))
    return filler


def finished(disk: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in disk.glob("runs/*/records/*/record.json")}


@pytest.mark.parametrize("free", [0, 2, 4, 6, 8, 12, 16, 20, 26, 32, 40, 48])
def test_full(small_disk: Path, tmp_path: Path, free: int) -> None:
    filler = fill(small_disk, free * PAGE)
    with pytest.raises(UserError) as told:
        run_small(small_disk)
    print("AAA", free, told.value)
    before = finished(small_disk)
    filler.unlink()
    outcome = run_small(small_disk)
    print(outcome, len(before))
    assert outcome.completed == 6
    assert before.items() <= finished(small_disk).items()
    starts = read_log(tmp_path, "start")
    print(len(starts))
