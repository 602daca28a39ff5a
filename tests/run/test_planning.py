"""Plan and status: counts and estimates worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.paths import StudyPaths
from ablate.core.record import Failure, Identity, Status, TrialRecord
from ablate.core.study import Study, Timing, Training
from ablate.design.cells import make_design
from ablate.records.store import write_record
from ablate.run.leases import lease_path
from ablate.run.locks import FileLock
from ablate.run.estimate import num_steps, rule_of_thumb_s
from ablate.run.planning import make_plan, select_parity, select_trials, trial_states
from builders import make_factors, make_study, make_workloads
from run_parts import make_run


def record_trial(
    study: Study, trial: PlannedTrial, paths: StudyPaths, seconds: int, status: Status = "completed"
) -> None:
    cell = trial.cell.cell
    record = TrialRecord(
        identity=Identity(
            study=study.name,
            study_hash=study.hash,
            key=trial.key,
            workload=trial.workload,
            execution=cell.execution,
            levels=dict(cell.levels),
            effective_key=trial.cell.effective_key,
            arms=trial.cell.arms,
            block=trial.block,
            seed=trial.seed,
            order=trial.order,
        ),
        status=status,
        failure=None if status == "completed" else Failure(reason="planted"),
        started_at="2026-01-01T00:00:00+00:00",
        ended_at=f"2026-01-01T00:00:{seconds:02d}+00:00",
    )
    write_record(paths.records / trial.slug, record)


def test_factorial_of_five_on_a_cpu_counts(tmp_path: Path) -> None:
    study = make_study(blocks=1)
    design = make_design(study)
    paths = StudyPaths.of("x", runs=tmp_path)
    plan = make_plan(study, design, select_trials(study, design, None), paths)
    # 32 compiled + eager + eager with sync_free + two again = 36; no_cuda_graphs is inert: 16 + 1 + 1 + 2 = 20
    assert (len(plan.cells), plan.keys_per_block, plan.trials) == (36, 20, 20)
    assert sum(cell.measured_as is not None for cell in plan.cells) == 16


def test_workloads_are_interleaved_inside_a_block(tmp_path: Path) -> None:
    study, design, _ = make_run(tmp_path, workloads=make_workloads("hm/item-sales", "hm/user-churn"))
    trials = select_trials(study, design, None)
    assert [trial.block for trial in trials] == [0] * 6 + [1] * 6
    assert [trial.workload for trial in trials[:4]] == ["hm/item-sales", "hm/user-churn"] * 2
    assert [trial.order for trial in trials[:6]] == [0, 0, 1, 1, 2, 2]


def test_rule_of_thumb_is_start_plus_steps_plus_compile(tmp_path: Path) -> None:
    study, design, _ = make_run(
        tmp_path,
        compile_backend="inductor",
        timing=Timing(epochs=2, steps_per_epoch=10),
        training=Training(channels=128, batch_size=256),
    )
    by_place = {(trial.cell.name, trial.block): rule_of_thumb_s(study, trial) for trial in design.trials}
    assert by_place["eager", 0] == pytest.approx(15 + 20 * 0.25)
    assert by_place["naive", 0] == pytest.approx(15 + 20 * 0.25 + 75)
    assert by_place["naive", 1] == pytest.approx(15 + 20 * 0.25 + 25)


def test_estimate_uses_records_of_the_same_workload_and_mode(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path)
    trials = select_trials(study, design, None)
    for trial in trials[:3]:
        record_trial(study, trial, paths, 10 if trial.cell.cell.execution == "eager" else 40)
    plan = make_plan(study, design, trials, paths)
    # one eager trial of 10 s, two compiled ones of 40 s, and 5 s before each record begins
    assert (plan.trials, plan.done, plan.estimated_s) == (6, 3, 105.0)
    assert plan.assumption == "from 3 finished trials of this study, 5 s to start each process"


def test_states_come_from_records_and_leases(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    done, failed, running = design.trials
    record_trial(study, done, paths, 1)
    record_trial(study, failed, paths, 1, "timed-out")
    lock = FileLock.try_acquire(lease_path(paths, running.slug))
    assert lock is not None
    states = {state.key: (state.state, state.reason) for state in trial_states(study, design, paths)}
    assert states == {
        done.key: ("completed", None),
        failed.key: ("timed-out", "planted"),
        running.key: ("running", None),
    }
    lock.release()
    assert trial_states(study, design, paths)[2].state == "waiting"


def test_records_of_another_form_of_the_study_do_not_count(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1)
    other = replace(study, seed=5)
    record_trial(other, design.trials[0], paths, 1)
    assert trial_states(study, design, paths)[0].state == "waiting"


def test_plan_of_one_workload_counts_it_alone(tmp_path: Path) -> None:
    study, design, paths = make_run(
        tmp_path,
        workloads=make_workloads("hm/item-sales", "hm/user-churn"),
        factors=make_factors(("tensor_lr",)),
    )
    plan = make_plan(study, design, select_trials(study, design, ["hm/user-churn"]), paths)
    assert (plan.workloads, plan.blocks, plan.trials) == (("hm/user-churn",), 2, 6)
