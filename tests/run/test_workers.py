"""Several workers of one host: blocks taken whole, turns on a device, take-over by the same environment only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from optuna.trial import TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.errors import UserError
from ablate.core.recipe import Recipe
from ablate.core.request import TrialRequest
from ablate.files.paths import StudyPaths
from ablate.records.store import read_record, write_json, write_record
from ablate.run.devices import Device, cpu_device, describe_difference, describe_worker, kind_of_wish, reserve
from ablate.run.executors.base import WorkerPool
from ablate.run.executors.coordinate import coordinate
from ablate.run.ledger.journal import open_journal
from ablate.run.ledger.ledger import Claim, Foreign, Held, Ledger
from ablate.run.ledger.lock_owner import LockOwner, describe_owner
from ablate.run.options import RunOptions
from ablate.run.plan.plan import trial_states
from ablate.run.process.parent_death import die_with_parent
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from builders import make_workloads
from run_parts import (
    FAKE_COMMAND,
    Notes,
    assert_one_at_a_time,
    drive,
    log_lines,
    make_record,
    make_run,
    read_log,
    wait_until,
)

HERE = {"host": "a", "device": "card", "torch": "2.13.0"}


def who_trained(paths: StudyPaths) -> dict[int, set[str]]:
    """Names of the workers that trained each block."""
    found = defaultdict(set)
    for path in paths.records.glob("*/environment.json"):
        found[read_record(path.parent).identity.block].add(json.loads(path.read_text())["WHO"])
    return found


def in_order(design_trials: tuple[PlannedTrial, ...]) -> tuple[PlannedTrial, ...]:
    return tuple(sorted(design_trials, key=lambda trial: (trial.block, trial.order)))


def test_two_workers_on_two_devices_take_whole_blocks(tmp_path: Path) -> None:
    _, _, paths = make_run(tmp_path, blocks=6)
    both = [
        drive(tmp_path, "--blocks", "6", FAKE_SLEEP_S="0.3", WHO=name, ABLATE_LOCKS=str(tmp_path / name))
        for name in ("one", "two")
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    starts = read_log(tmp_path, "start")
    assert len(starts) == 18 == len(set(starts))
    workers = who_trained(paths)
    assert all(len(names) == 1 for names in workers.values())
    assert set().union(*workers.values()) == {"one", "two"}


def test_two_workers_on_one_device_take_turns(tmp_path: Path) -> None:
    first = drive(tmp_path, "--blocks", "4", FAKE_SLEEP_S="0.3", WHO="one")
    wait_until(lambda: len(read_log(tmp_path, "start")) >= 1, seconds=60)
    second = drive(tmp_path, "--blocks", "4", FAKE_SLEEP_S="0.3", WHO="two")
    assert [process.wait(60) for process in (first, second)] == [0, 0]
    assert_one_at_a_time(tmp_path)
    _, _, paths = make_run(tmp_path)
    assert all(len(names) == 1 for names in who_trained(paths).values())
    by_key = {read_record(p.parent).identity.key: json.loads(p.read_text())["WHO"]
              for p in paths.records.glob("*/environment.json")}  # fmt: skip
    order = [by_key[key] for key in read_log(tmp_path, "start")]
    together = order[order.index("two") : len(order) - order[::-1].index("two")]
    together = together[: len(together) - together[::-1].index("one")] if "one" in together else together
    assert len(together) >= 4
    assert max(len(list(run)) for _, run in groupby(together)) <= 2  # the waiting one comes next


def test_a_block_of_a_killed_worker_is_held_by_its_orphan_then_goes_to_the_other(tmp_path: Path) -> None:
    _, design, paths = make_run(tmp_path)
    trials = in_order(design.trials)
    first = drive(tmp_path, FAKE_SLEEP_S="300", WHO="one", ABLATE_LOCKS=str(tmp_path / "one"))
    wait_until(lambda: len(read_log(tmp_path, "start")) >= 1, seconds=60)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    orphan = int(log_lines(tmp_path)[-1][1])
    second = drive(tmp_path, FAKE_SLEEP_S="0.05", WHO="two", ABLATE_LOCKS=str(tmp_path / "two"))
    said = f"waiting for trial {trials[0].key} left by an earlier ablate run (pid {orphan})"
    wait_until(lambda: said in (tmp_path / "driver.txt").read_text(), seconds=60)
    assert read_log(tmp_path, "end") == [trial.key for trial in trials[3:]]  # the other block, nothing of this one
    assert read_log(tmp_path, "start").count(trials[0].key) == 1 and is_alive(orphan)
    os.kill(orphan, signal.SIGKILL)
    assert second.wait(60) == 0
    assert who_trained(paths) == {0: {"two"}, 1: {"two"}}
    assert sorted(read_log(tmp_path, "start")) == sorted([trials[0].key, *(trial.key for trial in trials)])


def begin_block(paths: StudyPaths, trial: PlannedTrial, worker: dict[str, str]) -> None:
    """The record of a completed trial, and the request that its worker sent."""
    folder = paths.records / trial.slug
    write_record(folder, make_record(trial))
    request = TrialRequest(
        study_json="", trial=trial, recipe=Recipe(execution="eager", backend="eager", compile_step=True), attempt=1,
        record_folder=str(folder), cache_state="not-compiled", worker=worker,
    )  # fmt: skip
    write_json(folder / "request.json", request)


def test_only_the_environment_that_began_a_block_goes_on_with_it(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    trials = in_order(design.trials)
    begin_block(paths, trials[0], {**HERE, "torch": "2.12.0"})
    ledger = Ledger(study, paths, worker=HERE)
    ledger.enqueue(trials)
    claim = ledger.claim(trials)
    assert isinstance(claim, Claim) and claim.trial == trials[3]  # of the block that nobody has begun
    ledger.close()
    claim.lease.release()
    assert ledger.claim(trials[:3]) == Foreign(differences={"hm-user-churn--b00": "torch 2.12.0 there, 2.13.0 here"})
    there = Ledger(study, paths, worker={**HERE, "torch": "2.12.0"})
    claim = there.claim(trials[:3])
    assert isinstance(claim, Claim) and claim.trial == trials[1]
    assert isinstance(ledger.claim(trials[:3]), Held)  # while that one lives it is just held
    claim.lease.release()
    there.close()


def test_a_failed_trial_says_nothing_about_the_environment_of_its_block(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    trials = in_order(design.trials)
    begin_block(paths, trials[0], {**HERE, "torch": "2.12.0"})
    write_record(paths.records / trials[0].slug, make_record(trials[0], status="failed"))
    ledger = Ledger(study, paths, worker=HERE)
    ledger.enqueue(trials)
    claim = ledger.claim(trials)
    assert isinstance(claim, Claim) and claim.trial == trials[1]
    claim.lease.release()
    ledger.close()


def test_a_block_begun_elsewhere_can_be_trained_anew(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    trials = in_order(design.trials)
    begin_block(paths, trials[0], {**describe_worker(cpu_device(), study), "torch": "0.1"})
    with pytest.raises(UserError, match=r"begun in another environment: hm-user-churn--b00 \(torch 0\.1 there"):
        run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
    assert set(read_log(tmp_path, "start")) == {trial.key for trial in trials[3:]}  # the other block is done
    outcome = run_study(study, design, paths, SilentProgress(), RunOptions(restart_blocks=True), command=FAKE_COMMAND)
    assert (outcome.trained, outcome.completed, outcome.exit_code) == (3, 6, 0)
    assert read_record(paths.records / trials[0].slug).identity.attempt == 2
    assert read_record(paths.records / f"{trials[0].slug}.attempt-1").completed


def test_failed_trials_of_a_block_begun_elsewhere_are_not_tried_again_and_this_is_said(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    trials = in_order(design.trials)
    begin_block(paths, trials[0], {**describe_worker(cpu_device(), study), "torch": "0.1"})
    for trial in trials[1:]:  # of the same block, and the whole other block, which did not complete anywhere
        write_record(paths.records / trial.slug, make_record(trial, status="failed"))
    progress = Notes()
    outcome = run_study(study, design, paths, progress, RunOptions(retry_failed=True), command=FAKE_COMMAND)
    assert set(read_log(tmp_path, "start")) == {trial.key for trial in trials[3:]}
    assert (outcome.completed, len(outcome.failed), outcome.exit_code) == (4, 2, 2)
    [said] = [line for line in progress.lines if "not tried again" in line]
    assert "hm-user-churn--b00 (torch 0.1 there" in said and said.endswith("so use --retry-failed there")


def test_who_starts_workers_retries_no_failed_trial_of_a_block_that_they_may_not_train(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    trials = in_order(design.trials)
    begin_block(paths, trials[0], {**describe_worker(cpu_device(), study), "host": "elsewhere"})
    for trial in trials[1:]:  # of the same block, and the whole other block, which did not complete anywhere
        write_record(paths.records / trial.slug, make_record(trial, status="failed"))

    class Workers(WorkerPool):
        def running(self) -> int:
            run_study(study, design, paths, SilentProgress(), command=FAKE_COMMAND)
            return 0

        def problems(self) -> list[str]:
            return []

        def stop(self) -> None: ...

    progress = Notes()
    outcome = coordinate(study, design, paths, progress, Workers, RunOptions(retry_failed=True))
    assert set(read_log(tmp_path, "start")) == {trial.key for trial in trials[3:]}
    assert (outcome.completed, len(outcome.failed), outcome.exit_code) == (4, 2, 2)
    assert progress.lines[0] == (
        "failed trials of blocks that have completed ones are not tried again by workers of an executor: "
        "hm-user-churn--b00 (elsewhere); a block never mixes environments, so use --retry-failed without --executor "
        "there"
    )


def test_the_difference_of_two_environments_is_named() -> None:
    there = {"host": "b", "torch": "2.13.0", "triton": "3.6"}
    assert describe_difference(there, HERE) == (
        "host b there, a here; triton 3.6 there, absent here; device absent there, card here"
    )
    assert describe_difference(HERE, HERE) == ""


def test_blocks_of_two_workloads_are_taken_apart(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1, workloads=make_workloads("hm/user-churn", "hm/item-sales"))
    trials = in_order(design.trials)
    one, two = Ledger(study, paths), Ledger(study, paths)
    one.enqueue(trials)
    first, second = one.claim(trials), two.claim(trials)
    assert isinstance(first, Claim) and isinstance(second, Claim)
    assert {first.trial.workload, second.trial.workload} == {"hm/user-churn", "hm/item-sales"}
    for ledger, claim in ((one, first), (two, second)):
        ledger.put_back(claim)
        ledger.close()


def test_a_failure_noted_by_a_worker_that_was_killed_then_is_followed_by_the_next_attempt(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    trials = in_order(design.trials)
    ledger = Ledger(study, paths)
    ledger.enqueue(trials)
    storage, entries = open_journal(paths.ledger, study.name)
    lost = entries.get_trials()[0]
    storage.set_trial_state_values(lost._trial_id, TrialState.RUNNING)
    storage.set_trial_state_values(lost._trial_id, TrialState.FAIL)  # and killed before the next attempt was noted
    claim = ledger.claim(trials)
    assert isinstance(claim, Claim)
    assert (claim.trial.key, claim.attempt) == (lost.user_attrs["key"], 2)
    claim.lease.release()
    ledger.close()


def test_a_line_that_a_killed_worker_left_half_written_harms_nobody(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    trials = in_order(design.trials)
    ledger = Ledger(study, paths)
    ledger.enqueue(trials[:1])
    with paths.ledger.open("ab") as stream:
        stream.write(b'{"op_code": 4, "study_')
    assert ledger.enqueue(trials) == 2  # by a worker that had the journal open
    assert [entry.user_attrs["key"] for entry in open_journal(paths.ledger, study.name)[1].get_trials()] == [
        trial.key for trial in trials
    ]


def test_status_names_the_worker_of_a_running_trial_and_whether_it_is_gone(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    first = drive(tmp_path, FAKE_SLEEP_S="30")
    wait_until(lambda: len(read_log(tmp_path, "start")) >= 1, seconds=60)
    name = f"pid {first.pid} on {os.uname().nodename} ({cpu_device().name})"
    workers = [state.worker for state in trial_states(study, design, paths) if state.state == "running"]
    assert workers == [name]
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    workers = [state.worker for state in trial_states(study, design, paths) if state.state == "running"]
    assert workers == [f"{name}, which is gone; its trial trains on"]
    os.kill(int(log_lines(tmp_path)[-1][1]), signal.SIGKILL)


def test_each_worker_gets_a_gpu_of_its_own(tmp_path: Path) -> None:
    gpus = tuple(
        Device(kind="cuda", name=f"card {n}", lock_name=f"GPU-{n}", visible=f"GPU-{n}", index=0) for n in range(2)
    )
    first, first_reserved = reserve(gpus, None)
    second, second_reserved = reserve(gpus, "auto")
    third, third_reserved = reserve(gpus, "cuda")
    assert (first, second, third, third_reserved) == (*gpus, gpus[0], None)
    assert first_reserved is not None and second_reserved is not None
    first_reserved.release()
    assert reserve(gpus, "cuda:1") == (gpus[1], None)  # as asked for, in turns with its worker
    device, reserved = reserve(gpus, "GPU-0")
    assert device == gpus[0] and reserved is not None
    with pytest.raises(UserError, match=r"cuda:2 is not visible here; there is cuda:0 \(card 0\), cuda:1 \(card 1\)"):
        reserve(gpus, "cuda:2")
    for held in (second_reserved, reserved):
        held.release()


def test_a_reserved_that_is_a_link_is_one_sentence(tmp_path: Path) -> None:
    device = cpu_device()
    reserved = device.lock_path.with_suffix(".worker")
    reserved.parent.mkdir(exist_ok=True)
    reserved.symlink_to(tmp_path / "somewhere")
    with pytest.raises(UserError, match=r"cannot lock .*: Too many levels of symbolic links: .*\.worker; set ABLATE_"):
        reserve((device,), None)


def test_a_worker_with_an_impossible_process_id_is_gone() -> None:
    owner = LockOwner(host=os.uname().nodename, parent=2**70)
    assert describe_owner(owner).endswith("which is gone; its trial trains on")


def test_a_device_is_asked_for_in_words_that_are_known() -> None:
    assert [kind_of_wish(wish) for wish in (None, "auto", "cpu", "cuda", "cuda:3", "GPU-1a")] == [
        None, None, "cpu", "cuda", "cuda", "cuda",
    ]  # fmt: skip
    for wish in ("gpu0", "cuda:²"):
        with pytest.raises(UserError, match=f"--device {wish}: give auto, cpu, cuda"):
            kind_of_wish(wish)


def test_a_process_dies_with_the_one_that_started_it(tmp_path: Path) -> None:
    sleeper = die_with_parent([sys.executable, "-c", "import time; time.sleep(60)"])
    code = f"import subprocess, time; print(subprocess.Popen({sleeper!r}).pid, flush=True); time.sleep(60)"
    code = code.replace(repr(str(os.getpid())), "str(__import__('os').getpid())")
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    wait_until(
        lambda: b"parent_death.py" not in (shown := Path(f"/proc/{child}/cmdline").read_bytes()) and b"sleep" in shown
    )
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not is_alive(child))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_worker_waits_for_a_block_that_another_one_holds(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    trials = in_order(design.trials)
    one, two = Ledger(study, paths), Ledger(study, paths)
    one.enqueue(trials)
    claim = one.claim(trials)
    assert isinstance(claim, Claim)
    one.finish(claim, make_record(claim.trial))
    write_record(paths.records / claim.trial.slug, make_record(claim.trial))
    held = two.claim(trials)  # nothing runs, but the block is the other one's
    assert isinstance(held, Held) and held.trial == trials[1]
    one.close()
    started = time.monotonic()
    two.wait(held, lambda owner: None)
    assert time.monotonic() - started < 5
    again = two.claim(trials)
    assert isinstance(again, Claim) and again.trial == trials[1]
    two.put_back(again)
    two.close()


def test_a_changed_number_of_threads_is_another_environment(tmp_path: Path) -> None:
    study, _, _ = make_run(tmp_path)
    one = describe_worker(cpu_device(), study)
    two = describe_worker(cpu_device(), replace(study, num_threads=2))
    assert describe_difference(one, two) == "num_threads 1 there, 2 here"
