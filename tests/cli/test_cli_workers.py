"""`ablate worker`, and the workers that `ablate run` starts, with the fake trainer in real processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ablate.cli.loading import LoadedStudy
from ablate.cli.workers import _workers, count_workers
from ablate.run import devices
from ablate.run.devices import Device
from ablate.run.executors.base import WorkerPool, Workers
from ablate.run.executors.registry import start_workers
from ablate.run.options import RunOptions
from builders import make_study
from run_parts import HERE, make_run, read_log

Ablate = Callable[..., tuple[int, str, str]]
WORKER = (
    "import sys; import ablate.run.runner as study; from run_parts import FAKE_COMMAND; "
    "study.TRAIN_COMMAND = FAKE_COMMAND; from ablate.cli import main; sys.exit(main(['worker', *sys.argv[1:]]))"
)


@pytest.fixture
def workers_train_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers that are started use the fake trainer too."""

    def command(arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-c", WORKER, *arguments]

    monkeypatch.setattr("ablate.run.executors.base.worker_command", command)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), str(HERE)]))
    monkeypatch.setenv("FAKE_SLEEP_S", "0.2")


def test_a_worker_trains_and_leaves_the_report_to_run(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    code, out, err = ablate("worker", spec)
    assert (code, out) == (0, "study small: trained 6 trials here, 6 of 6 are completed\n")
    assert "[6/6] hm/user-churn" in err
    assert not (tmp_path / "reports").exists() and not (tmp_path / "mlflow.db").exists()
    code, out, _ = ablate("worker", spec, "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["trained"], told["completed"]) == (0, 6)


@pytest.mark.usefixtures("no_tracking", "workers_train_fast")
def test_run_with_two_workers_trains_each_trial_once(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    code, _, _ = ablate("run", spec, "--no-report", "--workers", 2, "--blocks", 6)
    assert code == 0
    starts = read_log(tmp_path, "start")
    assert len(starts) == 18 == len(set(starts))
    said = (tmp_path / "runs" / "small" / "workers" / "worker-1.txt").read_text()
    assert "study small: trained" in said and "18 of 18 are completed" in said


@pytest.mark.usefixtures("no_tracking", "workers_train_fast")
def test_an_executor_trains_for_run(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    options = ("--executor", "submitit", "--executor-option", "cluster=local", "--workers", 1)
    code, out, err = ablate("run", spec, "--no-report", "--blocks", 1, *options)
    assert code == 0
    assert "3 of 3 trials have ended" in err
    assert out == f"every trial in MLflow: ablate ui {spec}\n"
    assert len(read_log(tmp_path, "end")) == 3


@pytest.mark.usefixtures("no_tracking", "workers_train_fast")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_right_after_workers_were_started_stops_them(
    number: signal.Signals, ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[WorkerPool] = []

    def start(name: str, workers: Workers) -> WorkerPool:
        pools.append(start_workers(name, workers))
        signal.raise_signal(number)
        return pools[0]

    monkeypatch.setattr("ablate.run.executors.registry.start_workers", start)
    code, _, err = ablate("run", spec, "--no-report", "--workers", 2)
    assert (code, pools[0].running()) == (3, 0)
    assert f"interrupted; resume with: ablate run {spec} --workers 2" in err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--workers", "none"), "--workers none: give a number from 1, or all for one per GPU of this host"),
        (("--workers", "²"), "--workers ²: give a number from 1, or all for one per GPU of this host"),
        (("--device", "cuda:²"), "--device cuda:²: give auto, cpu, cuda, cuda:<n> or the UUID of a GPU"),
        (("--ledger", "postgresql://me@host:port/x"), "the ledger's address is not one of PostgreSQL"),
        (("--executor", "submitit", "--executor-option", "gpu"), "--executor-option is written name=value"),
        (("--workers", "0"), "--workers 0: give a number from 1, or all for one per GPU of this host"),
        (("--executor", "rey"), "--executor rey is unknown; did you mean 'ray'?"),
        (("--runs", "taken"), "taken: Not a directory; choose another folder with --runs"),
        (("--runs", "/proc/nope"), "cannot write /proc: No such file or directory; choose another folder"),
        (("--reports", "taken"), "taken: Not a directory; choose another folder with --reports"),
        (("--reports", "/proc/nope"), "cannot write /proc: No such file or directory; choose another folder"),
        (("--tracking-uri", "ftp://x"), "ftp://x"),
        (("--device", "gpu"), "--device gpu: give auto, cpu, cuda, cuda:<n> or the UUID of a GPU"),
        (("--ledger", "sqlite:///x.db"), "the ledger's address is not one of PostgreSQL"),
    ],
)
def test_wrong_options_are_one_sentence_before_the_plan(
    options: tuple[str, ...], sentence: str, ablate: Ablate, spec: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    code, _, err = ablate("run", spec, "--no-report", *options)
    assert (code, len(err.splitlines())) == (1, 1)
    assert sentence in err


@pytest.mark.parametrize(("num_gpus", "number"), [(0, 1), (1, 1), (3, 3)])
def test_all_workers_are_one_per_gpu(monkeypatch: pytest.MonkeyPatch, num_gpus: int, number: int) -> None:
    found = [Device(kind="cuda", name="card", lock_name=f"GPU-{index}") for index in range(num_gpus)]
    asked: list[str] = []
    monkeypatch.setattr(devices, "find_devices", lambda kind: [asked.append(kind), found][1])
    assert count_workers(make_study(device="cuda"), RunOptions(workers="all")) == number
    assert asked == ["cuda"]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (RunOptions(workers="2", device="cuda"), ["--device", "cuda"]),
        (RunOptions(workers="2", device="cuda:1"), []),  # only one of them can have that one
        (RunOptions(workers="2"), []),
        (RunOptions(workers="2", executor="submitit"), ["--device", "cuda"]),
    ],
)
def test_workers_are_asked_for_a_gpu_but_for_none_twice(options: RunOptions, asked: list[str], tmp_path: Path) -> None:
    study, _, paths = make_run(tmp_path, device="cuda")
    loaded = LoadedStudy.of(study, paths, ())
    workers = _workers(loaded, options, tmp_path / "spec.yaml", 2)
    words = list(workers.command)
    assert workers.device == "cuda"
    assert (words[words.index("--device") :][:2] if "--device" in words else []) == asked


@pytest.mark.parametrize(
    ("package", "options", "extra"),
    [
        ("submitit", ("--executor", "submitit"), "slurm"),
        ("ray", ("--executor", "ray"), "ray"),
        ("psycopg2", ("--ledger", "postgresql://me@host/x"), "postgresql"),
    ],
)
def test_a_missing_extra_is_named_before_the_plan(
    package: str, options: tuple[str, ...], extra: str, ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = ablate("run", spec, *options)
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"pip install 'ablate-study[{extra}]'" in err


@pytest.mark.parametrize("command", ["worker", "margins"])
def test_other_commands_that_train_need_a_folder_too(command: str, ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    code, _, err = ablate(command, spec, "--runs", "taken")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "taken: Not a directory; choose another folder with --runs" in err
