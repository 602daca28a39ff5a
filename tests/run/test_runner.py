"""run_study with real processes and a fake trainer: exactly once, whoever is killed; every failure has its reason."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.study import ExplicitCell
from ablate.files.disk import explain_disk_errors
from ablate.records.store import read_design, read_record, read_study
from ablate.run.options import RunOptions
from ablate.run.outcome import RunOutcome
from ablate.run.plan.stored_study import store_plan
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from builders import make_factors
from run_parts import (
    FAKE_COMMAND,
    Notes,
    assert_one_at_a_time,
    drive,
    log_lines,
    make_run,
    read_log,
    read_statuses,
    wait_until,
)


def run_small(folder: Path, progress: SilentProgress | None = None, **options: object) -> RunOutcome:
    changes = options.pop("changes", {})
    given = {name: options.pop(name) for name in ("workloads", "retry_failed") if name in options}
    study, design, paths = make_run(folder, **changes)  # type: ignore[arg-type]
    return run_study(
        study,
        design,
        paths,
        progress or SilentProgress(),
        RunOptions(**given),  # type: ignore[arg-type]
        command=FAKE_COMMAND,
        **options,  # type: ignore[arg-type]
    )


def test_every_trial_once_in_planned_order_and_nothing_again(tmp_path: Path) -> None:
    study, design, _ = make_run(tmp_path)
    outcome = run_small(tmp_path)
    planned = [t.key for t in sorted(design.trials, key=lambda t: (t.block, t.order))]
    assert (outcome.planned, outcome.completed, outcome.trained, outcome.exit_code) == (6, 6, 6, 0)
    assert read_log(tmp_path, "start") == planned
    again = run_small(tmp_path)
    assert (again.completed, again.trained) == (6, 0)
    assert read_log(tmp_path, "start") == planned
    assert read_log(tmp_path, "prepare") == [study.name]


def test_more_blocks_add_only_what_is_missing(tmp_path: Path) -> None:
    run_small(tmp_path, changes={"blocks": 1})
    assert len(read_log(tmp_path, "start")) == 3
    outcome = run_small(tmp_path, changes={"blocks": 3})
    assert (outcome.planned, outcome.trained) == (9, 6)
    assert len(set(read_log(tmp_path, "start"))) == 9


def test_fewer_blocks_keep_the_larger_plan(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path, blocks=2)
    run_small(tmp_path, changes={"blocks": 2})
    outcome = run_small(tmp_path, changes={"blocks": 1})
    assert (outcome.planned, outcome.trained) == (3, 0)
    assert len(json.loads(paths.design_json.read_text())["trials"]) == 6
    assert json.loads(paths.study_json.read_text())["blocks"] == 2


def test_another_workload_extends_a_study_and_keeps_its_blocks(tmp_path: Path) -> None:
    from builders import make_workloads

    _, _, paths = make_run(tmp_path)
    run_small(tmp_path, changes={"blocks": 2})
    both = make_workloads("hm/item-sales", "hm/user-churn")
    outcome = run_small(tmp_path, changes={"blocks": 1, "workloads": both})
    assert (outcome.planned, outcome.trained, outcome.exit_code) == (6, 3, 0)
    stored, design = read_study(paths.study_json), read_design(paths.design_json)
    assert ([choice.name for choice in stored.workloads], stored.blocks) == (["hm/item-sales", "hm/user-churn"], 2)
    places = [(t.block, t.workload.partition("/")[2], t.order) for t in design.trials]
    assert places == [
        *((0, "item-sales", order) for order in range(3)),
        *((0, "user-churn", order) for order in range(3)),
        *((1, "user-churn", order) for order in range(3)),
    ]
    again = run_small(tmp_path, changes={"blocks": 2, "workloads": make_workloads("hm/item-sales")})
    assert (again.planned, again.trained) == (6, 3)
    assert len(read_design(paths.design_json).trials) == 12 == len(set(read_log(tmp_path, "start")))


def test_the_whole_after_its_half_keeps_blocks_of_the_half(tmp_path: Path) -> None:
    names = ("dynamic_shapes", "tensor_lr", "string_keys", "sync_free")
    half, whole = (
        make_run(tmp_path, design=kind, cells=(), factors=make_factors(names), blocks=blocks)
        for kind, blocks in (("fraction", 2), ("factorial", 1))
    )
    store_plan(half[0], half[1], half[2])
    store_plan(whole[0], whole[1], whole[2])
    design = read_design(half[2].design_json)
    per_block = [len({t.key for t in design.trials if t.block == block}) for block in (0, 1)]
    assert (design.kind, per_block) == ("factorial", [len(whole[1].effective_keys), len(half[1].effective_keys)])


def test_one_workload_first_then_the_rest_interleaved(tmp_path: Path) -> None:
    from builders import make_workloads

    changes = {"workloads": make_workloads("hm/user-churn", "hm/item-sales"), "blocks": 1}
    first = run_small(tmp_path, changes=changes, workloads=("hm/item-sales",))
    assert (first.planned, first.trained) == (3, 3)
    assert all(key.startswith("hm/item-sales") for key in read_log(tmp_path, "start"))
    second = run_small(tmp_path, changes=changes)
    assert (second.planned, second.trained) == (6, 3)
    with pytest.raises(UserError, match="no workload 'hm/nothing'"):
        run_small(tmp_path, changes=changes, workloads=("hm/nothing",))


def test_failures_are_recorded_with_reasons_and_never_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"eager": "fail", "naive": "sigkill", "full": "non-finite"}))
    changes = {"blocks": 1}
    outcome = run_small(tmp_path, changes=changes)
    reasons = {trial.status: trial.reason for trial in outcome.failed}
    assert outcome.exit_code == 2
    assert (outcome.completed, outcome.trained) == (0, 3)
    expected = "the process ended with exit code 1 and left no record: RuntimeError: planted failure"
    assert reasons == {
        "failed": expected,
        "killed": "the process was killed by SIGKILL; the system sends it when memory runs out",
        "non-finite": "loss is nan at step 3",
    }
    _, _, paths = make_run(tmp_path)
    eager = next(path.parent for path in paths.records.glob("*eager*/record.json"))
    assert "Traceback" in read_record(eager).failure.traceback  # type: ignore[union-attr]
    assert run_small(tmp_path, changes=changes).trained == 0


@pytest.mark.parametrize("behavior", ["hang", "stubborn"])
def test_a_trial_that_hangs_is_ended_when_its_time_is_up_even_if_it_ignores_sigterm(
    behavior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablate.run.process.child.GRACE_S", 0.3)
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"full": behavior}))
    alone = (ExplicitCell(arm="full"),)  # the only arm, since all have the same time-out
    outcome = run_small(tmp_path, changes={"blocks": 1, "trial_timeout_s": 2.0, "cells": alone})
    assert outcome.exit_code == 2
    assert [(trial.status, trial.reason) for trial in outcome.failed] == [
        ("timed-out", "took longer than the time-out of 2.0 s and was ended")
    ]


def test_retry_failed_adds_a_flagged_attempt_and_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, paths = make_run(tmp_path)
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "crash", "full": "non-finite"}))
    assert run_small(tmp_path, changes={"blocks": 1}).exit_code == 2
    assert read_statuses(paths) == {"eager/0": "completed", "naive/0": "failed", "full/0": "non-finite"}
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "crash"}))
    again = run_small(tmp_path, changes={"blocks": 1}, retry_failed=True)
    assert (again.trained, again.completed, again.exit_code) == (2, 2, 2)
    naive = next(path for path in paths.records.glob("*naive*") if ".attempt-" not in path.name)
    assert read_record(naive).identity.attempt == 2
    assert read_record(naive.with_name(f"{naive.name}.attempt-1")).identity.attempt == 1


def test_kill_minus_nine_of_the_runner_then_again_every_trial_once(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path)
    first = drive(tmp_path, FAKE_SLEEP_S="0.8")
    wait_until(lambda: len(read_log(tmp_path, "start")) == 2)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert len(read_log(tmp_path, "end")) == 1
    progress = Notes()
    outcome = run_small(tmp_path, progress)
    starts = read_log(tmp_path, "start")
    assert (outcome.completed, outcome.trained) == (6, 4)  # the orphan's own record counts
    assert len(starts) == 6 == len(set(starts))
    orphan = next(line for line in log_lines(tmp_path) if line[0] == "start" and line[3] == starts[1])
    assert f"waiting for trial {starts[1]} left by an earlier ablate run (pid {orphan[1]})" in progress.lines
    assert_one_at_a_time(tmp_path)
    assert len(read_statuses(paths)) == 6


def read_cache_states(folder: Path) -> dict[str, str]:
    _, _, paths = make_run(folder)
    records = [read_record(path.parent) for path in paths.records.glob("*/record.json") if "attempt" not in str(path)]
    return {f"{r.identity.arms[0]}/{r.identity.block}": r.cache_state for r in records}


def test_an_orphan_that_completed_leaves_a_warm_cache(tmp_path: Path) -> None:
    first = drive(tmp_path, FAKE_SLEEP_S="0.8")
    wait_until(lambda: "compiled" in "".join(read_log(tmp_path, "start")[-1:]))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert run_small(tmp_path).completed == 6
    assert read_cache_states(tmp_path) == {
        "eager/0": "not-compiled", "naive/0": "cold", "full/0": "cold",
        "eager/1": "not-compiled", "naive/1": "warm", "full/1": "warm",
    }  # fmt: skip


def test_a_retried_trial_of_the_first_block_is_cold_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "crash"}))
    run_small(tmp_path, changes={"blocks": 1})
    monkeypatch.delenv("FAKE_BEHAVIOR")
    run_small(tmp_path, changes={"blocks": 3})
    states = read_cache_states(tmp_path)
    assert (states["naive/1"], states["naive/2"]) == ("cold", "warm")
    outcome = run_small(tmp_path, changes={"blocks": 3}, retry_failed=True)
    assert (outcome.trained, outcome.completed) == (1, 9)
    assert read_cache_states(tmp_path)["naive/0"] == "cold"


def test_runner_and_trial_both_killed_the_lost_trial_runs_again(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path)
    first = drive(tmp_path, FAKE_SLEEP_S="30")
    wait_until(lambda: len(read_log(tmp_path, "start")) == 1)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    os.kill(int(log_lines(tmp_path)[-1][1]), signal.SIGKILL)
    outcome = run_small(tmp_path)
    starts = read_log(tmp_path, "start")
    assert (outcome.completed, outcome.trained, outcome.exit_code) == (6, 6, 0)
    assert starts[0] == starts[1]  # the lost one keeps its place in the order
    attempts = sorted(read_record(path.parent).identity.attempt for path in paths.records.glob("*/record.json"))
    assert attempts == [1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_a_study_that_resumes(tmp_path: Path, number: signal.Signals) -> None:
    first = drive(tmp_path, FAKE_SLEEP_S="30")
    wait_until(lambda: len(read_log(tmp_path, "start")) == 1)
    os.kill(first.pid, number)
    assert first.wait(10) == 3
    _, _, paths = make_run(tmp_path)
    assert read_statuses(paths) == {}
    with pytest.raises(ProcessLookupError):
        os.kill(int(log_lines(tmp_path)[-1][1]), 0)
    outcome = run_small(tmp_path)
    assert (outcome.completed, outcome.trained) == (6, 6)
    records = [read_record(path.parent) for path in paths.records.glob("*/record.json")]
    assert {record.identity.attempt for record in records} == {1}


def test_an_orphan_that_overran_its_time_out_is_ended(tmp_path: Path) -> None:
    from ablate.run.ledger.lock_owner import LockOwner, end_overdue_orphan

    first = drive(tmp_path, FAKE_SLEEP_S="60")
    wait_until(lambda: len(read_log(tmp_path, "start")) == 1)
    _, _, paths = make_run(tmp_path)
    lease = next(paths.leases.glob("*.lock"))
    owner = LockOwner.parse(json.loads(lease.read_text()))
    assert not end_overdue_orphan(replace(owner, deadline=1.0))  # its runner is alive
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert not end_overdue_orphan(owner)  # not overdue
    assert not end_overdue_orphan(replace(owner, deadline=1.0, request="/some/other/request.json"))
    assert end_overdue_orphan(replace(owner, deadline=1.0))
    wait_until(lambda: run_small(tmp_path).completed == 6)


def test_two_studies_take_turns_on_the_device(tmp_path: Path) -> None:
    both = [drive(tmp_path, "--study", name, "--blocks", "1", FAKE_SLEEP_S="0.15") for name in ("one", "two")]
    assert [process.wait(30) for process in both] == [0, 0]
    assert len(read_log(tmp_path, "end")) == 6
    assert_one_at_a_time(tmp_path)
    assert "has it; taking turns" in (tmp_path / "driver.txt").read_text()


def test_two_runners_of_one_study_share_the_trials(tmp_path: Path) -> None:
    both = [drive(tmp_path, FAKE_SLEEP_S="0.1") for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    starts = read_log(tmp_path, "start")
    assert len(starts) == 6 == len(set(starts))
    assert_one_at_a_time(tmp_path)


def test_changed_study_is_refused(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    run_small(tmp_path)
    changed = replace(study, training=replace(study.training, batch_size=8))
    with pytest.raises(UserError, match=r"\(changed: training\); rename the study"):
        run_study(changed, design, paths, SilentProgress(), command=FAKE_COMMAND)
    reworded = replace(study, question="Another question?", trial_timeout_s=5.0)
    assert run_study(reworded, design, paths, SilentProgress(), command=FAKE_COMMAND).completed == 6


def test_data_that_cannot_be_prepared_is_a_user_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PREPARE_EXIT", "1")
    with pytest.raises(UserError, match=r"could not be prepared: graph is ready \(more in .*prepare-errors.txt\)"):
        run_small(tmp_path)
    assert read_log(tmp_path, "start") == []


def test_unwritable_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in the way")
    with pytest.raises(UserError, match=r"cannot write .*; choose another folder with --runs and run again"):
        run_small(tmp_path)


def test_full_disk_is_one_sentence(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path)
    expected = "cannot write /x/record.json: No space left on device; free some space and run again"
    with pytest.raises(UserError, match=expected), explain_disk_errors(paths.root):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/record.json")
    with pytest.raises(IsADirectoryError), explain_disk_errors(paths.root):
        raise OSError(errno.EISDIR, "not about the disk")


def test_on_trial_is_called_with_each_record_folder(tmp_path: Path) -> None:
    folders: list[Path] = []
    run_small(tmp_path, on_trial=folders.append)
    assert [read_record(folder).identity.key for folder in folders] == read_log(tmp_path, "end")
