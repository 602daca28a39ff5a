"""Small studies, the fake trainer and its log, for the tests of the runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.core.cell import Design, PlannedTrial
from ablate.core.record import Failure, Status, Times, TrialRecord
from ablate.core.study import Equivalence, ExplicitCell, Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.run.progress import SilentProgress
from builders import make_factors, make_study

FAKE_COMMAND = (sys.executable, str(Path(__file__).with_name("fake_train.py")))
HERE = Path(__file__).parent


class Notes(SilentProgress):
    """Remembers the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def make_small_study(**changes: Any) -> Study:
    """Eager, naive and full of two optimizations in two blocks: 6 timed trials, no parity trials unless asked for."""
    defaults: dict[str, Any] = {
        "factors": make_factors(("dynamic_shapes", "tensor_lr")),
        "design": "cells",
        "cells": tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full")),
        "trial_timeout_s": 20.0,
        "equivalence": Equivalence(parity="off"),
    }
    return make_study(**{**defaults, **changes})


def make_run(folder: Path, **changes: Any) -> tuple[Study, Design, StudyPaths]:
    study = make_small_study(**changes)
    paths = StudyPaths.of(study.name, runs=folder / "runs", reports=folder / "reports")
    return study, make_design(study), paths


def make_record(
    trial: PlannedTrial, *, study: Study | None = None, status: Status = "completed", attempt: int = 1
) -> TrialRecord:
    times = Times(
        epoch_s=(0.5,), steady_epochs=(0,), horizon_epochs=10, compile_s=0.0, loader_wait_s=(0.0,), first_step_s=0.1
    )
    began = "2026-01-01T00:00:00+00:00"
    return replace(
        TrialRecord.begin(study or make_small_study(), trial, started_at=began, attempt=attempt),
        status=status,
        failure=None if status == "completed" else Failure(reason="planted"),
        ended_at="2026-01-01T00:00:01+00:00",
        times=times if status == "completed" and trial.purpose == "timed" else None,
    )


def drive(folder: Path, *flags: str, **environment: str) -> subprocess.Popen[bytes]:
    """Run `drive_study.py` in a process of its own, as `ablate run` would; its notes go to `<folder>/driver.txt`."""
    path = os.pathsep.join([str(HERE.parent), str(HERE)])
    with (folder / "driver.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, str(HERE / "drive_study.py"), str(folder), *flags],
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def read_log(folder: Path, what: str) -> list[str]:
    """Keys of the fake trainer's log lines of one kind (`prepare`, `start`, `end`), in order."""
    return [line[3] for line in log_lines(folder) if line[0] == what]


def log_lines(folder: Path) -> list[list[str]]:
    path = folder / "log.txt"
    return [line.split(" ", 3) for line in path.read_text().splitlines()] if path.exists() else []


def assert_one_at_a_time(folder: Path) -> None:
    """Between a start and its end no other trial starts."""
    open_key = None
    for what, _, _, key in log_lines(folder):
        if what == "start":
            assert open_key is None, f"{key} started while {open_key} trained"
            open_key = key
        elif what == "end":
            assert open_key == key
            open_key = None


def wait_until(holds: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def read_statuses(paths: StudyPaths) -> dict[str, str]:
    """Status of each current record by arm and block, e.g. `naive/0`, or `parity naive/0`."""
    found = {}
    for path in paths.records.glob("*/record.json"):
        record = json.loads(path.read_text())
        if ".attempt-" not in path.parent.name:
            identity = record["identity"]
            purpose = "parity " if identity["purpose"] == "parity" else ""
            found[f"{purpose}{identity['arms'][0]}/{identity['block']}"] = record["status"]
    return found
