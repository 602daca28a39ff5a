"""Order, seeds, keys and file names of planned trials."""

import re
import subprocess
import sys
from dataclasses import replace

from ablate.core.study import WorkloadChoice
from ablate.design.cells import make_design
from ablate.design.trials import make_slug
from builders import WORKLOADS, make_study, make_workloads

THREE = ("hm/user-churn", "hm/item-sales", "hm/user-item-purchase")


def test_one_trial_per_key_workload_and_block():
    trials = make_design(make_study(blocks=5, workloads=make_workloads(*THREE))).trials
    assert len(trials) == 20 * 3 * 5
    assert len({trial.key for trial in trials}) == len({trial.slug for trial in trials}) == 300


def test_each_block_has_its_seed_and_a_complete_random_order():
    trials = make_design(make_study(blocks=3, seed=40)).trials
    for block in range(3):
        of_block = [trial for trial in trials if trial.block == block]
        assert {trial.seed for trial in of_block} == {40 + block}
        assert [trial.order for trial in of_block] == list(range(20))
    orders = {tuple(t.cell.effective_key for t in trials if t.block == block) for block in range(3)}
    assert len(orders) == 3


def test_blocks_come_before_workloads_so_that_a_cut_study_covers_all():
    trials = make_design(make_study(blocks=2, workloads=make_workloads(*THREE))).trials
    visited = list(dict.fromkeys((trial.block, trial.workload) for trial in trials))
    assert visited == [(block, workload) for block in range(2) for workload in THREE]


def test_orders_differ_between_workloads():
    trials = make_design(make_study(blocks=1, workloads=make_workloads(*THREE))).trials
    orders = {tuple(t.cell.effective_key for t in trials if t.workload == name) for name in THREE}
    assert len(orders) == 3


def test_more_blocks_or_workloads_leave_planned_trials_as_they_are():
    few = make_design(make_study(blocks=1)).trials
    many = make_design(make_study(blocks=4, workloads=make_workloads(*THREE))).trials
    assert [t for t in many if t.workload == "hm/user-churn" and t.block == 0] == list(few)


def test_the_order_does_not_depend_on_hash_randomization():
    code = (
        "import sys; sys.path.insert(0, 'tests'); from builders import make_study; "
        "from ablate.design.cells import make_design; print([t.slug for t in make_design(make_study()).trials])"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1


def test_aliases_are_measured_in_the_cell_with_fewest_on():
    trials = make_design(make_study(device="cpu", design="leave-one-out", blocks=1)).trials
    names = sorted(trial.cell.name for trial in trials)
    assert names == [
        "eager", "full", "naive", "without-dynamic_shapes", "without-string_keys", "without-sync_free",
        "without-tensor_lr",
    ]  # fmt: skip


def test_keys_and_slugs_are_readable():
    trial = next(t for t in make_design(make_study()).trials if "naive" in t.cell.arms)
    assert trial.key == f"hm/user-churn/b0/{trial.cell.effective_key}"
    assert re.fullmatch(r"hm-user-churn--b00--naive--[0-9a-f]{8}", trial.slug)


def test_slugs_are_short_and_safe_whatever_the_names():
    slug = make_slug(workload="../Mine/ü " + "w" * 200, block=7, name="without-" + "x" * 200, key="k")
    assert len(slug) == 120
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", slug) and not slug.startswith((".", "-"))
    other = make_slug(workload="../Mine/ü " + "w" * 200, block=7, name="without-" + "x" * 200, key="k2")
    assert slug != other


def test_a_name_of_signs_only_still_gives_a_slug():
    info = replace(WORKLOADS["hm/user-churn"], name="///")
    trials = make_design(make_study(workloads=(WorkloadChoice(info=info),))).trials
    assert trials[0].slug.startswith("x--b00--")
