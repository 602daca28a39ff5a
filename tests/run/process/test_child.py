"""The process of one trial: how it ends, what is made of that, and that nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ablate.core.errors import DiskError
from ablate.core.request import TRAINED_NAME
from ablate.core.serialize import to_dict
from ablate.core.study import Equivalence, ExplicitCell
from ablate.records.store import read_records
from ablate.run.plan.plan import make_plan
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from builders import make_factors
from run_parts import FAKE_COMMAND, drive, make_record, make_run, read_log, read_statuses, wait_until

ARMS = ("eager", "naive", "full")


def test_an_exit_without_an_error_and_without_a_record_is_not_a_failure_of_unknown_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "exit", "full": "catch"}))
    study, design, paths = make_run(tmp_path, blocks=1)
    outcome = run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
    assert read_statuses(paths) == {"eager/0": "completed", "naive/0": "killed", "full/0": "killed"}
    assert {trial.reason for trial in outcome.failed} == {
        "the process ended without a record: it was told to stop, or its own code called exit",
        "the process was killed by SIGTERM; it caught the signal and ended without a record",
    }


def test_the_record_of_a_killed_trial_says_what_it_ran_under(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "sigkill"}))
    stated = Equivalence(parity="off", margin={"hm/user-churn": 0.2}, metric_margin={"hm/user-churn": 0.01})
    factors = make_factors(("dynamic_shapes",), off_means="guide")
    study, design, paths = make_run(tmp_path, blocks=1, equivalence=stated, factors=factors)
    run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
    record = next(record for _, record in read_records(paths.records) if record.status == "killed")
    assert record.margins == {"loss": 0.2, "metric": 0.01}
    assert record.emulations == {"dynamic_shapes": factors[0].info.emulations["static"]}
    assert record.expectations == {"dynamic_shapes": to_dict(factors[0].info.expectations)}
    assert make_plan(study, design, design.trials, paths).under_other_margins == 0


def test_a_trial_that_records_a_failure_when_its_time_is_up_stays_timed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"full": "fail-late"}))
    alone = (ExplicitCell(arm="full"),)
    study, design, paths = make_run(tmp_path, blocks=1, trial_timeout_s=2.0, cells=alone)
    outcome = run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
    assert [(t.status, t.reason) for t in outcome.failed] == [
        ("timed-out", "took longer than the time-out of 2.0 s and was ended")
    ]


@pytest.mark.parametrize(
    ("behavior", "reason"),
    [
        ("sigkill-later", "the process was killed by SIGKILL; the system sends it when memory runs out"),
        ("hang-later", "took longer than the time-out of 2.0 s and was ended"),
    ],
)
def test_a_process_that_ends_after_its_training_leaves_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behavior: str, reason: str
) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"full": behavior}))
    alone = (ExplicitCell(arm="full"),)
    study, design, paths = make_run(tmp_path, blocks=1, trial_timeout_s=2.0, cells=alone)
    outcome = run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
    assert (outcome.completed, outcome.failed) == (1, ())
    ((folder, record),) = read_records(paths.records)
    assert record.times is not None and record.times.steady_s == 0.5
    assert [(f.stage, f.reason) for f in record.failed_after] == [("audit", reason)]
    assert not (folder / TRAINED_NAME).exists()


def test_what_an_interrupted_start_left_is_not_taken_for_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.records.store import write_record
    from ablate.run import runner

    real = runner.run_child

    def leave_a_record(launch: Any) -> Any:
        folder = Path(launch.request.record_folder)
        write_record(folder, make_record(launch.request.trial))
        (folder / "series.parquet").write_text("old")
        record = real(launch)
        assert not (folder / "series.parquet").exists()
        return record

    monkeypatch.setattr(runner, "run_child", leave_a_record)
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({arm: "crash" for arm in ARMS}))
    study, design, paths = make_run(tmp_path, blocks=1)
    assert run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND).completed == 0
    assert set(read_statuses(paths).values()) == {"failed"}


def test_a_second_ctrl_c_ends_a_stubborn_trial_at_once(tmp_path: Path) -> None:
    runner = drive(tmp_path, FAKE_BEHAVIOR=json.dumps({arm: "stubborn" for arm in ARMS}))
    wait_until(lambda: len(read_log(tmp_path, "start")) == 1)
    wait_until(lambda: len(children_of(runner.pid)) == 1)
    child = children_of(runner.pid)[0]
    wait_until(lambda: ignores(child, signal.SIGTERM))
    os.kill(runner.pid, signal.SIGINT)
    time.sleep(0.5)
    started = time.monotonic()
    os.kill(runner.pid, signal.SIGINT)
    assert runner.wait(10) == 3
    assert time.monotonic() - started < 4.0  # the grace is 5 s
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize("start", ["trial", "prepare"])
def test_a_signal_while_a_process_is_started_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def interrupted_start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = real(command, **options)
        if start in command:
            started.append(process)
            signal.raise_signal(signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted_start)
    monkeypatch.setenv("FAKE_SLEEP_S", "30")
    study, design, paths = make_run(tmp_path, blocks=1)
    before = signal.getsignal(signal.SIGTERM)
    outcome = run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
    assert (outcome.interrupted, outcome.trained) == (True, 0)
    assert [process.poll() is not None for process in started] == [True]
    assert read_statuses(paths) == {}
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        study, design, paths = make_run(tmp_path, blocks=1)
        outcome = run_study(
            study, design, paths, SilentProgress(), command=FAKE_COMMAND,
            on_trial=lambda folder: signal.raise_signal(signal.SIGHUP),
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (outcome.interrupted, outcome.completed) == (False, 3)


def children_of(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ignores(pid: int, number: int) -> bool:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("SigIgn"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ('{"stage": "disk", "disk_error": "no room on /data"}', r"^no room on /data$"),
        ("", r"^cannot write .*/records/.*: the disk is full; free some space and run again"),
    ],
)
def test_what_a_trial_says_of_its_disk_is_a_field(event: str, said: str, tmp_path: Path) -> None:
    code = (
        "import json, os, sys\n"
        "if sys.argv[1] == 'prepare': sys.exit()\n"
        f"os.write(json.load(open(sys.argv[2]))['progress_fd'], {(event + chr(10)).encode()!r})\n"
        "print('cannot be what is read: every finished trial is kept')\n"
        "sys.exit(74)\n"
    )
    study, design, paths = make_run(tmp_path, blocks=1)
    with pytest.raises(DiskError, match=said):
        run_study(study, design, paths, SilentProgress(), command=(sys.executable, "-c", code))
    assert list(read_records(paths.records)) == []
