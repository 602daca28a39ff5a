"""Parity trials of every kind of design, worked out by hand: which cells, blocks and windows, in which order."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ablate.core.cell import Design
from ablate.core.errors import UserError
from ablate.core.study import Equivalence, ExplicitCell, Timing
from ablate.design.cells import make_design
from ablate.design.trials import resolve_windows
from builders import make_factors, make_study, make_workloads

GUIDE_CPU = ["eager", "naive", "full", "without-dynamic_shapes", "without-tensor_lr", "without-string_keys",
             "without-sync_free"]  # fmt: skip
TWO = make_factors(("dynamic_shapes", "sync_free"))


def design_of(parity: str = "default", **changes: Any) -> Design:
    """300 steps, so that all four windows differ: 0, 20, 150, 250."""
    equivalence = replace(changes.pop("equivalence", Equivalence()), parity=parity)
    timing = changes.pop("timing", Timing(epochs=5, steps_per_epoch=60))
    return make_design(make_study(equivalence=equivalence, timing=timing, **changes))


def names_of(design: Design) -> list[str]:
    return [trial.cell.name for trial in design.parity]


@pytest.mark.parametrize(
    ("windows", "num_steps", "starts"),
    [
        ((0, 20, "middle", "end"), 300, (0, 20, 150, 250)),
        ((0, 20, "middle", "end"), 120, (0, 20, 60, 70)),
        ((0, 20, "middle", "end"), 30, (0, 15, 20)),
        ((0, 20, "middle", "end"), 12, (0, 6)),
        (("end", 250, 0, 0), 300, (0, 250)),
        ((300, 299), 300, (299,)),
        ((12,), 12, ()),
    ],
)
def test_windows_are_resolved_ascending_without_repetitions(windows, num_steps, starts):
    assert resolve_windows(Equivalence(windows=windows), num_steps) == starts


def test_default_is_the_arms_in_the_first_block_and_window_eager_first():
    design = design_of(blocks=5, seed=40)
    assert names_of(design) == GUIDE_CPU  # no_cuda_graphs cannot act: without it is full, trained once
    eager = design.parity[0]
    assert (eager.key, eager.reference) == ("hm/user-churn/b0/parity(0|60)/eager[sync_free=syncing]", None)
    assert {(t.block, t.seed, t.windows, t.purpose) for t in design.parity} == {(0, 40, (0,), "parity")}
    assert {trial.reference for trial in design.parity[1:]} == {eager.key}
    assert [trial.order for trial in design.parity] == list(range(7))


def test_on_a_gpu_every_optimization_is_left_out_once():
    assert names_of(design_of(device="cuda")) == [*GUIDE_CPU[:-1], "without-no_cuda_graphs", GUIDE_CPU[-1]]


@pytest.mark.parametrize("kind", ["factorial", "fraction", "ladder", "leave-one-out", "add-one-in"])
def test_default_tests_the_same_arms_whatever_the_design(kind):
    trials = design_of(design=kind).parity
    assert len(trials) == 7
    assert all(arm in trial.cell.arms for arm, trial in zip(GUIDE_CPU, trials, strict=True))


def test_default_tests_the_arms_beside_written_cells_too():
    design = design_of(design="cells", cells=(ExplicitCell(arm="full"),), factors=TWO)
    assert [(trial.cell.cell.execution, trial.cell.on) for trial in design.parity] == [
        ("eager", ()), ("compiled", ()), ("compiled", ("dynamic_shapes", "sync_free")), ("compiled", ("sync_free",)),
        ("compiled", ("dynamic_shapes",)),
    ]  # fmt: skip
    assert [cell.name for cell in design.cells] == ["full"]


def test_the_spec_may_name_the_arms():
    assert names_of(design_of(equivalence=Equivalence(arms=("full",)))) == ["eager", "full"]
    again = design_of(equivalence=Equivalence(arms=("full", "with-tensor_lr", "eager", "without-no_cuda_graphs")))
    assert [trial.cell.name for trial in again.parity] == ["eager", "full", "with-tensor_lr"]


def test_an_arm_that_the_study_does_not_have_is_refused():
    with pytest.raises(UserError, match="no arm 'fuller'"):
        design_of(equivalence=Equivalence(arms=("fuller",)))


def test_one_optimization_has_three_arms():
    design = design_of(factors=make_factors(["sync_free"]))
    assert [(t.cell.name, t.cell.effective_key) for t in design.parity] == [
        ("eager", "eager[sync_free=syncing]"),
        ("naive", "compiled[sync_free=syncing]"),  # also without-sync_free
        ("full", "compiled[sync_free=sync-free]"),
    ]


def test_fixed_optimizations_are_in_every_arm():
    design = design_of(factors=make_factors(["dynamic_shapes"]) + make_factors(["sync_free"], setting="on"))
    assert [trial.cell.effective_key for trial in design.parity] == [
        "eager[sync_free=sync-free]",
        "compiled[dynamic_shapes=automatic,sync_free=sync-free]",
        "compiled[dynamic_shapes=dynamic,sync_free=sync-free]",
    ]


def test_without_a_varying_optimization_naive_is_full():
    cells = (ExplicitCell(arm="eager"), ExplicitCell(arm="full"))
    assert names_of(design_of(design="cells", cells=cells, factors=())) == ["eager", "naive"]


def test_all_is_every_setting_once_in_every_block_and_window():
    design = design_of("all", factors=TWO, blocks=2)
    expected = ["eager", "naive", "full", "with-dynamic_shapes", "with-sync_free", "eager-with-sync_free"]
    assert names_of(design) == expected * 2
    assert [trial.block for trial in design.parity] == [0] * 6 + [1] * 6
    assert {trial.windows for trial in design.parity} == {(0, 20, 150, 250)}
    assert design.parity[6].key == "hm/user-churn/b1/parity(0,20,150,250|60)/eager[sync_free=syncing]"
    assert {trial.reference for trial in design.parity[7:]} == {design.parity[6].key}


@pytest.mark.parametrize(
    ("kind", "num_settings"),
    # 2^4 compiled, eager, eager with sync_free; 2^3 compiled and eager; the ladder's rung of no_cuda_graphs is no other
    [("factorial", 18), ("fraction", 9), ("ladder", 6), ("leave-one-out", 7), ("add-one-in", 7)],
)
def test_all_counts_the_settings_of_each_design(kind, num_settings):
    design = design_of("all", design=kind, blocks=3)
    assert len(design.parity) == 3 * num_settings
    assert not any(trial.cell.cell.repeat for trial in design.parity)


def test_all_adds_eager_to_written_cells_without_it():
    cells = (ExplicitCell(arm="full"), ExplicitCell(arm="full-again"))
    assert names_of(design_of("all", design="cells", cells=cells, factors=TWO, blocks=1)) == ["eager", "full"]


def test_off_is_none_and_so_are_windows_behind_the_end():
    assert design_of("off").parity == ()
    assert design_of("all", equivalence=Equivalence(windows=(300,))).parity == ()


def test_windows_steps_and_reruns_are_part_of_the_key():
    keys = {
        design_of(equivalence=equivalence).parity[0].key.split("/")[3]
        for equivalence in (
            Equivalence(window_steps=30),
            Equivalence(reruns=2),
            Equivalence(windows=(20, "end")),
            Equivalence(margin={"hm/user-churn": 0.1}),
        )
    }
    assert keys == {"parity(0|30)", "parity(0|60|2)", "parity(20|60)", "parity(0|60)"}


def test_each_workload_has_its_reference_and_blocks_come_first():
    names = ("hm/user-churn", "hm/item-sales")
    design = design_of("all", factors=TWO, blocks=2, workloads=make_workloads(*names))
    eager = [trial for trial in design.parity if trial.reference is None]
    assert [(t.block, t.workload) for t in eager] == [(block, name) for block in range(2) for name in names]
    for trial in design.parity:
        of_block = f"{trial.workload}/b{trial.block}/parity(0,20,150,250|60)/eager[sync_free=syncing]"
        assert trial.reference == (of_block if trial.order else None)


def test_slugs_are_readable_and_differ_from_those_of_timed_trials():
    design = design_of("all", blocks=2)
    slugs = {trial.slug for trial in (*design.trials, *design.parity)}
    assert len(slugs) == len(design.trials) + len(design.parity)
    assert re.fullmatch(r"hm-user-churn--b00--parity-naive--[0-9a-f]{8}", design.parity[1].slug)


def test_more_blocks_or_workloads_leave_planned_parity_trials_as_they_are():
    few = design_of("all", blocks=1, factors=TWO).parity
    many = design_of("all", blocks=3, factors=TWO, workloads=make_workloads("hm/item-sales", "hm/user-churn")).parity
    assert [t for t in many if t.workload == "hm/user-churn" and t.block == 0] == list(few)
