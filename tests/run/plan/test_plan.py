"""Plan and status: counts and estimates worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.record import Failure, Status, TrialRecord
from ablate.core.study import Equivalence, Study, Timing, Training
from ablate.design.cells import make_design
from ablate.files.locks import FileLock
from ablate.files.paths import StudyPaths
from ablate.records.store import write_record
from ablate.run.ledger.lock_owner import lease_path
from ablate.run.plan.estimate import num_steps, rule_of_thumb_s
from ablate.run.plan.plan import make_plan, select_parity, select_trials, trial_states
from builders import make_factors, make_study, make_workloads
from run_parts import make_run


def record_trial(
    study: Study, trial: PlannedTrial, paths: StudyPaths, seconds: int, status: Status = "completed", **more: Any
) -> None:
    record = replace(
        TrialRecord.begin(study, trial, started_at="2026-01-01T00:00:00+00:00"),
        status=status,
        failure=None if status == "completed" else Failure(reason="planted"),
        ended_at=f"2026-01-01T00:00:{seconds:02d}+00:00",
        **more,
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
        training=Training(batch_size=256),
        workloads=make_workloads("hm/user-churn", channels=128),
    )
    by_place = {(trial.cell.name, trial.block): rule_of_thumb_s(study, trial) for trial in design.trials}
    assert by_place["eager", 0] == pytest.approx(15 + 20 * 0.25)
    assert by_place["naive", 0] == pytest.approx(15 + 20 * 0.25 + 75)
    assert by_place["naive", 1] == pytest.approx(15 + 20 * 0.25 + 25)


@pytest.mark.parametrize(
    ("backend", "compile_s", "said"),
    [
        ("aot_eager", 25, "15 s to start a trial, 0.25 s a step, 25 s to compile"),
        ("eager", 8, "15 s to start a trial, 0.25 s a step, 8 s to compile"),
    ],
)
def test_tracing_takes_time_with_every_backend_and_is_never_warm(
    backend: str, compile_s: float, said: str, tmp_path: Path
) -> None:
    study, design, paths = make_run(
        tmp_path,
        compile_backend=backend,
        timing=Timing(epochs=2, steps_per_epoch=10),
        training=Training(batch_size=256),
        workloads=make_workloads("hm/user-churn", channels=128),
    )
    plan = make_plan(study, design, design.trials, paths)
    assert plan.estimated_s == pytest.approx(2 * (3 * (15 + 20 * 0.25) + 2 * compile_s))  # 2 blocks of 3, 2 compiled
    assert plan.assumption == f"assumed, not measured: {said}"


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
        tmp_path, workloads=make_workloads("hm/item-sales", "hm/user-churn"), factors=make_factors(("tensor_lr",))
    )
    plan = make_plan(study, design, select_trials(study, design, ["hm/user-churn"]), paths)
    assert (plan.workloads, plan.blocks, plan.trials) == (("hm/user-churn",), 2, 6)


def with_parity(folder: Path, **changes: Any) -> tuple[Study, Any, StudyPaths]:
    """300 steps; windows of 60 steps from 0, 20, 150 and 250 (that one has 50)."""
    return make_run(
        folder,
        compile_backend="inductor",
        timing=Timing(epochs=5, steps_per_epoch=60),
        training=Training(batch_size=256),
        workloads=make_workloads("hm/user-churn", channels=128),
        **{"factors": make_factors(("tensor_lr",)), **changes},
    )


def test_steps_of_parity_trials_are_those_of_their_windows(tmp_path: Path) -> None:
    study, design, _ = with_parity(tmp_path, equivalence=Equivalence(parity="all"), blocks=1)
    eager, *arms = design.parity
    assert {num_steps(study, arm) for arm in arms} == {60 + 60 + 60 + 50}
    assert num_steps(study, eager) == 300 + 6 * 230  # the trajectory; a repeat and five reruns of each window
    assert {num_steps(study, trial) for trial in design.trials} == {300}
    assert rule_of_thumb_s(study, arms[0]) == pytest.approx(15 + 230 * 0.25 + 75)


def test_the_plan_counts_parity_trials_apart(tmp_path: Path) -> None:
    study, design, paths = with_parity(tmp_path, equivalence=Equivalence(), blocks=2)
    trials, parity = select_trials(study, design, None), select_parity(study, design, None)
    record_trial(study, trials[0], paths, 30)
    record_trial(study, parity[0], paths, 20)
    record_trial(study, parity[1], paths, 10, "failed")
    plan = make_plan(study, design, trials, paths, parity)
    assert (plan.trials, plan.done, plan.failed) == (6, 1, 0)
    found = plan.parity
    assert (found.asked, found.cells, found.windows) == ("default", ("eager", "naive", "full"), (0,))
    assert (found.trials, found.done, found.failed) == (3, 2, 1)
    # one compiled trial is missing, and no compiled parity trial completed: start, 60 steps, a cold compile
    assert found.estimated_s == pytest.approx(15 + 60 * 0.25 + 75)
    record_trial(study, parity[1], paths, 10)
    found = make_plan(study, design, trials, paths, parity).parity
    # 10 s of the record and 5 s before it; records of timed trials say nothing about parity trials
    assert (found.estimated_s, found.assumption[:26]) == (15.0, "from 2 finished trials of ")


def test_trials_under_other_margins_are_counted(tmp_path: Path) -> None:
    study, design, paths = make_run(tmp_path, blocks=1, equivalence=Equivalence(margin={"hm/user-churn": 0.2}))
    trials = select_trials(study, design, None)
    for trial, margins in zip(trials, ({"loss": 0.2}, {"loss": 0.1}, {}), strict=True):
        record_trial(study, trial, paths, 10, margins=margins)
    assert make_plan(study, design, trials, paths).under_other_margins == 2
    both = replace(study, equivalence=Equivalence(margin={"hm/user-churn": 0.2}, metric_margin={"hm/user-churn": 0.01}))
    assert make_plan(both, design, trials, paths).under_other_margins == 3


def test_states_of_parity_trials_carry_their_purpose(tmp_path: Path) -> None:
    study, design, paths = with_parity(tmp_path, equivalence=Equivalence(), blocks=1)
    record_trial(study, design.parity[0], paths, 1)
    states = trial_states(study, design, paths)
    assert [state.purpose for state in states] == ["timed"] * 3 + ["parity"] * 3
    assert [state.state for state in states] == ["waiting"] * 3 + ["completed", "waiting", "waiting"]
