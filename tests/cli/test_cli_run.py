"""`ablate run`, `plan`, `status`, `show` with the fake trainer: exit codes, JSON, resume sentences."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from run_parts import read_log, wait_until

Ablate = Callable[..., tuple[int, str, str]]
HERE = Path(__file__).resolve()


@pytest.mark.usefixtures("no_tracking")
def test_run_trains_reports_nothing_and_exits_0(ablate: Ablate, spec: Path) -> None:
    code, out, err = ablate("run", spec, "--no-report")
    assert code == 0
    assert "study small on cpu: 6 trials, 6 missing, about" in err
    assert "[6/6] hm/user-churn" in err
    assert out == f"every trial in MLflow: ablate ui {spec}\n"


def test_run_json_is_the_only_thing_on_stdout(ablate: Ablate, spec: Path, no_tracking: list[Path]) -> None:
    code, out, _ = ablate("run", spec, "--no-report", "--blocks", 1, "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["outcome"]["planned"], told["outcome"]["completed"], told["pdf"]) == (3, 3, None)
    assert len(no_tracking) == 3


@pytest.mark.usefixtures("no_tracking")
def test_failed_trials_exit_2_and_are_named(ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "fail"}))
    code, out, _ = ablate("run", spec, "--no-report", "--blocks", 1)
    assert code == 2
    assert "failed: hm/user-churn/b0/compiled[" in out
    assert "RuntimeError: planted failure" in out
    assert "1 of 3 trials did not complete" in out
    monkeypatch.delenv("FAKE_BEHAVIOR")
    assert ablate("run", spec, "--no-report", "--blocks", 1)[0] == 2
    assert ablate("run", spec, "--no-report", "--blocks", 1, "--retry-failed")[0] == 0


@pytest.mark.usefixtures("no_tracking")
def test_changed_study_exits_1_with_one_sentence(ablate: Ablate, spec: Path) -> None:
    assert ablate("run", spec, "--no-report", "--blocks", 1)[0] == 0
    spec.write_text(spec.read_text().replace("steps_per_epoch: 4", "steps_per_epoch: 5"))
    code, _, err = ablate("run", spec, "--no-report")
    assert code == 1
    assert "(changed: timing); rename the study in the spec or use another folder with --runs" in err


def test_ctrl_c_exits_3_with_the_command_that_resumes(tmp_path: Path, spec: Path) -> None:
    code = (
        "import sys, ablate.run.runner as s; from run_parts import FAKE_COMMAND; s.TRAIN_COMMAND = FAKE_COMMAND;"
        "from ablate.cli import main; sys.exit(main())"
    )
    environment = {**os.environ, "FAKE_SLEEP_S": "30", "PYTHONPATH": os.pathsep.join(map(str, HERE.parents[1:3]))}
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", str(spec), "--blocks", "1"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: len(read_log(tmp_path, "start")) == 1)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 3
    assert f"0 of 3 are completed; resume with: ablate run {spec} --blocks 1" in err


@pytest.mark.usefixtures("no_tracking")
def test_the_command_that_resumes_names_the_servers_and_no_password(
    ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ablate.cli.workers.train", interrupt)
    ledger = "postgresql://me:secret@db/x?host=/run/pg&sslmode=require&password=secret"
    code, _, err = ablate("run", spec, "--ledger", ledger, "--tracking-uri", "http://bob:secret@host")
    assert code == 3
    resume = next(line for line in err.splitlines() if "resume with: " in line).partition("resume with: ")[2]
    assert shlex.split(resume) == [
        "ablate", "run", str(spec), "--ledger", "postgresql://me@db/x?host=%2Frun%2Fpg&sslmode=require",
        "--tracking-uri", "http://bob:***@host",
    ]  # fmt: skip


def test_plan_counts_cells_and_trials(ablate: Ablate, spec: Path) -> None:
    code, out, _ = ablate("plan", spec, "--json")
    plan = json.loads(out)
    assert code == 0
    assert (plan["trials"], plan["keys_per_block"], plan["done"], len(plan["cells"])) == (6, 3, 0, 3)
    code, out, _ = ablate("plan", spec, "--blocks", 5)
    assert "trials: 3 cells x 1 workload x 5 blocks = 15; 0 have ended, 0 failed" in out


@pytest.mark.usefixtures("no_tracking")
def test_status_counts_and_names_failures(ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = ablate("status", spec)
    assert (code, "start it with `ablate run SPEC`" in err) == (1, True)
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"full": "non-finite"}))
    ablate("run", spec, "--no-report", "--blocks", 1)
    code, out, _ = ablate("status", spec, "--json")
    assert json.loads(out)["counts"] == {"completed": 2, "non-finite": 1}
    code, out, _ = ablate("status", Path("runs/small"))
    assert code == 0
    assert "study small: 3 trials: 2 completed, 1 non-finite" in out
    assert "loss is nan at step 3" in out


@pytest.mark.usefixtures("no_tracking")
def test_show_prints_the_record_and_trains_it_again(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    ablate("run", spec, "--no-report", "--blocks", 1)
    slug = next(path.parent.name for path in Path("runs/small/records").glob("*naive*/record.json"))
    code, out, _ = ablate("show", slug, "--json")
    told = json.loads(out)
    assert told["record"]["identity"]["arms"] == ["naive"]
    assert told["command"].startswith("ablate show ")
    key = told["record"]["identity"]["key"]
    assert f"{key}: completed, attempt 1" in ablate("show", key)[1]
    code, _, _ = ablate("show", slug, "--rerun", tmp_path / "again")
    assert code == 0
    assert json.loads((tmp_path / "again" / "record.json").read_text())["cache_state"] == "cold"
    assert len(list(Path("runs/small/records").glob("*/record.json"))) == 3
    code, _, err = ablate("show", "nothing-like-it")
    assert (code, "no ended trial under runs is called 'nothing-like-it'" in err) == (1, True)


def test_a_bad_tracking_address_stops_before_any_trial(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    code, _, err = ablate("run", spec, "--tracking-uri", "ftp://nowhere")
    assert code == 1
    assert "ftp://nowhere" in err
    assert read_log(tmp_path, "start") == []
