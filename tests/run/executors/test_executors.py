"""Workers that an executor starts: processes of this host, submitit's local executor, a Ray of one node."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ablate.run.executors as executors
from ablate.core.errors import UserError
from ablate.files.paths import StudyPaths
from ablate.run.executors.base import WorkerPool, Workers, require_database
from ablate.run.executors.coordinate import coordinate
from ablate.run.executors.registry import start_workers
from ablate.run.outcome import RunOutcome
from ablate.run.progress import SilentProgress
from run_parts import HERE, Notes, make_run, read_log, wait_until


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), str(HERE)]))


def make_workers(folder: Path, paths: StudyPaths, **changes: Any) -> Workers:
    fields: dict[str, Any] = {
        "command": (sys.executable, str(HERE / "drive_study.py"), str(folder)),
        "number": 2,
        "folder": paths.root / "workers",
        "device": "cpu",
        "num_cpus": 1,
        "shares_database": False,
        "options": {},
    }
    return Workers(**{**fields, **changes})


def coordinate_with(name: str, folder: Path, progress: SilentProgress | None = None, **changes: Any) -> RunOutcome:
    study, design, paths = make_run(folder)
    workers = make_workers(folder, paths, **changes)
    return coordinate(study, design, paths, progress or SilentProgress(), lambda: start_workers(name, workers))


@pytest.mark.parametrize(
    ("name", "options"),
    [("local", {}), ("submitit", {"cluster": "local"}), pytest.param("ray", {}, marks=pytest.mark.slow)],
)
def test_an_executor_hands_out_workers_and_the_ledger_the_trials(
    name: str, options: dict[str, str], tmp_path: Path
) -> None:
    notes = Notes()
    outcome = coordinate_with(name, tmp_path, notes, options=options)
    assert (outcome.planned, outcome.completed, outcome.trained, outcome.exit_code) == (6, 6, 6, 0)
    starts = read_log(tmp_path, "start")
    assert len(starts) == 6 == len(set(starts))
    assert notes.lines[-1] == "6 of 6 trials have ended; 0 workers"
    again = coordinate_with(name, tmp_path, options=options)
    assert (again.completed, again.trained) == (6, 0)


@pytest.mark.parametrize(("name", "options"), [("local", {}), ("submitit", {"cluster": "local"})])
def test_workers_that_fail_are_named(name: str, options: dict[str, str], tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit(7)")
    with pytest.raises(UserError, match=r"6 of 6 trials are left \(a worker ended with exit code 7; see /.*run again"):
        coordinate_with(name, tmp_path, command=command, options=options)


@pytest.mark.parametrize(("name", "options"), [("local", {}), ("submitit", {"cluster": "local"})])
def test_an_interrupt_stops_the_workers_and_their_trials(
    name: str, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SLEEP_S", "120")

    def interrupt() -> None:
        wait_until(lambda: len(read_log(tmp_path, "start")) >= 1, seconds=90)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    outcome = coordinate_with(name, tmp_path, options=options)
    assert (outcome.interrupted, outcome.completed, outcome.exit_code) == (True, 0, 3)
    pid = int((tmp_path / "log.txt").read_text().splitlines()[-1].split()[1])
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), seconds=30)
    monkeypatch.setenv("FAKE_SLEEP_S", "0.01")
    assert coordinate_with(name, tmp_path, options=options).completed == 6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_workers_are_started_stops_them(number: signal.Signals, tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    pools: list[WorkerPool] = []

    def start() -> WorkerPool:
        pools.append(start_workers("local", make_workers(tmp_path, paths, command=("sleep", "60"))))
        signal.raise_signal(number)
        return pools[0]

    outcome = coordinate(study, design, paths, SilentProgress(), start)
    assert (outcome.interrupted, pools[0].running()) == (True, 0)


def test_an_executor_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twice.py").write_text(
        "from ablate.run.executors.base import ExecutorInfo\nfrom ablate.run.executors.local import LocalPool\n"
        "INFO = ExecutorInfo(name='mine', start=LocalPool)\n"
    )
    monkeypatch.setattr(executors, "__path__", [*executors.__path__, str(tmp_path)])
    monkeypatch.setattr(executors.__spec__, "submodule_search_locations", executors.__path__)
    assert coordinate_with("mine", tmp_path).completed == 6


def test_workers_of_several_hosts_need_a_database(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path)
    with pytest.raises(UserError, match="workers of SLURM need a ledger that all hosts reach: --ledger postgresql"):
        require_database(make_workers(tmp_path, paths), "SLURM")
    require_database(make_workers(tmp_path, paths, shares_database=True), "SLURM")


def test_ray_takes_no_options(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--executor-option slurm_partition: Ray takes none"):
        coordinate_with("ray", tmp_path, options={"slurm_partition": "gpu"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluster": "local", "timeout_min": "soon"}, '"timeout_min" expected type .*"soon"'),
        ({"cluster": "foo"}, "executor named foo"),
        ({"cluster": "slurm"}, 'Could not detect "srun"'),
        ({"cluster": "local", "no_such_thing": "1"}, "[^\n]*no_such_thing[^\n]*$"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^--executor submitit cannot start workers \(.*{said}"):
        coordinate_with("submitit", tmp_path, options=options, shares_database=True)


def test_the_options_that_the_documentation_names_reach_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("srun", "sbatch"):
        (programs / name).write_text(f'#!/bin/sh\ncat "$1" > {tmp_path}/job.sh\necho Submitted batch job 7\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    _, _, paths = make_run(tmp_path)
    options = {"slurm_partition": "gpu", "timeout_min": "600", "cpus_per_task": "8", "slurm_account": "007"}
    start_workers("submitit", make_workers(tmp_path, paths, options=options, device="cuda", shares_database=True))
    job = (tmp_path / "job.sh").read_text()
    for flag in ("partition=gpu", "time=600", "cpus-per-task=8", "gpus-per-node=1", "account=007"):
        assert f"#SBATCH --{flag}\n" in job


def test_jobs_that_were_submitted_before_one_was_refused_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import submitit

    class Job:
        cancelled = False

        def done(self) -> bool:
            return self.cancelled

        def cancel(self) -> None:
            self.cancelled = True

    job, answers = Job(), iter(["job", "refusal"])

    def submit(self: object, *_: object) -> Job:
        if next(answers) == "refusal":
            raise RuntimeError("sbatch: error: Invalid account\nmore of it")
        return job

    monkeypatch.setattr(submitit.AutoExecutor, "submit", submit)
    with pytest.raises(UserError, match=r"\(sbatch: error: Invalid account\); check each --executor-option$"):
        coordinate_with("submitit", tmp_path, options={"cluster": "local"})
    assert job.cancelled


@pytest.mark.parametrize(("name", "extra"), [("submitit", "slurm"), ("ray", "ray")])
def test_an_executor_that_is_not_installed_says_which_extra_it_is(
    name: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"pip install 'ablate-study\[{extra}\]'"):
        coordinate_with(name, tmp_path)


def test_the_last_look_waits_for_workers_that_end_by_themselves(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path)
    sleeper = (sys.executable, "-c", "import time; time.sleep(1)")
    pool = start_workers("local", make_workers(tmp_path, paths, command=sleeper))
    started = time.monotonic()
    assert pool.running() == 2
    pool.wait()
    assert (pool.running(), pool.problems()) == (0, [])
    assert time.monotonic() - started > 0.5
