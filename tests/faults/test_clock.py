"""A wall clock that jumps while trials train: no time-out, no negative time, dates in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fault_parts import call_ablate, write_spec
from run_parts import read_log

HOUR_S = 3600


def test_the_shifted_clock_is_one(shifted_clock: Path) -> None:
    code = "import time, datetime; print(time.time(), datetime.datetime.now().timestamp(), time.monotonic())"

    def read(shift_s: int) -> list[float]:
        environment = {"LD_PRELOAD": str(shifted_clock), "CLOCK_SHIFT_S": str(shift_s)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return [float(word) for word in done.stdout.split()]

    now, later = read(0), read(HOUR_S)
    assert later[0] - now[0] == pytest.approx(HOUR_S, abs=60)
    assert later[1] - now[1] == pytest.approx(HOUR_S, abs=60)
    assert later[2] - now[2] == pytest.approx(0, abs=60)


@pytest.mark.parametrize("shift_s", [-HOUR_S, pytest.param(7 * 24 * HOUR_S, marks=pytest.mark.slow)])
def test_the_clock_jumps_in_every_process(shifted_clock: Path, tmp_path: Path, shift_s: int) -> None:
    """In the runner before its first trial; each trial inherits a clock that jumps again, in its middle."""
    spec = write_spec(tmp_path)
    done = call_ablate(tmp_path, "run", spec, "--no-report", FAKE_SLEEP_S="1.0", LD_PRELOAD=str(shifted_clock),
                       CLOCK_SHIFT_S=str(shift_s), CLOCK_SHIFT_AFTER_S="0.6")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(read_log(tmp_path, "start")) == 3
    planned = call_ablate(tmp_path, "plan", spec, "--json")
    assert json.loads(planned.stdout)["done"] == 3


@pytest.mark.slow
def test_times_of_a_real_trial_are_real(shifted_clock: Path, tmp_path: Path) -> None:
    """A real training whose clock goes back an hour after 8 s, with imports before and steps after it."""
    from ablate.core.recipe import Recipe
    from ablate.core.request import TrialRequest
    from ablate.design.cells import make_design
    from ablate.records.store import read_record, read_series, write_json
    from real_parts import tiny_graph, tiny_study

    tiny_graph()
    study = tiny_study(epochs=3, steps=100)
    trial = next(t for t in make_design(study).trials if t.cell.cell.execution == "eager")
    request = TrialRequest(study_json=str(tmp_path / "study.json"), trial=trial, recipe=Recipe(), attempt=1,
                           record_folder=str(tmp_path), cache_state="not-compiled")  # fmt: skip
    write_json(tmp_path / "study.json", study)
    write_json(tmp_path / "request.json", request)
    environment = {**os.environ, "LD_PRELOAD": str(shifted_clock), "CLOCK_SHIFT_S": str(-HOUR_S),
                   "CLOCK_SHIFT_AFTER_S": "8"}  # fmt: skip
    command = [sys.executable, "-m", "ablate.train", "trial", str(tmp_path / "request.json")]
    subprocess.run(command, env=environment, check=True)
    record, series = read_record(tmp_path), read_series(tmp_path)
    assert record.completed and record.times is not None
    took = datetime.fromisoformat(record.ended_at) - datetime.fromisoformat(record.started_at)
    assert 0 < sum(record.times.epoch_s) < took.total_seconds() < 200
    assert (series.step_s > 0).all() and (series.loader_wait_s >= 0).all()


def test_a_stopwatch_is_not_moved_by_the_clock(shifted_clock: Path) -> None:
    """The dates of every record come from it: a begin by the clock, an end by the seconds that went by."""
    code = (
        "import time\nfrom ablate.files.stopwatch import Stopwatch\nwatch = Stopwatch()\ntime.sleep(1.2)\n"
        "print(watch.started_at, watch.ended_at(), time.time())"
    )
    environment = {"LD_PRELOAD": str(shifted_clock), "CLOCK_SHIFT_S": str(-HOUR_S), "CLOCK_SHIFT_AFTER_S": "1.0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    started, ended, now = done.stdout.split()
    begin = datetime.fromisoformat(started)
    assert 1.2 <= (datetime.fromisoformat(ended) - begin).total_seconds() < 30
    assert float(now) < begin.timestamp()  # the clock did go back
