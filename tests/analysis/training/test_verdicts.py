"""Rows of the three tiers -> the verdict that the rule gives, with tier, place, quantity and what is called out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ablate.analysis.results.training import MarginRow, TrainingVerdict, WindowRow
from ablate.analysis.training.verdicts import judge_training, second_tier

ARM = TrainingVerdict(side="arm", subject="full", verdict="not tested")
PASSES = WindowRow(
    side="arm", subject="full", block=0, window=0, outcome="within the envelope", num_steps=60,
    num_tested=60, largest=2e-7,
)  # fmt: skip
BITWISE = replace(PASSES, outcome="bitwise equal", largest=0.0)
FAILS = replace(
    PASSES, window=20, outcome="beyond the envelope", largest=1e-3, first_step=22, quantity="lr", quantity_step=20
)  # fmt: skip
SILENT = replace(
    PASSES, outcome="says nothing", num_steps=0, num_tested=0, largest=None, note="masks are not aligned"
)  # fmt: skip


def margin(verdict: str, quantity: str = "final loss", **changes: Any) -> MarginRow:
    row = MarginRow(
        side="arm", subject="full", quantity="final loss", verdict="equivalent", difference=0.001,
        interval_90=(-0.001, 0.003), interval_95=(-0.002, 0.004), margin=0.01, stated="before the trials",
        num_blocks=8,
    )  # fmt: skip
    return replace(row, verdict=verdict, quantity=quantity, **changes)


def optimization(numerics: str) -> TrainingVerdict:
    return replace(ARM, side="optimization", subject="x", numerics=numerics)


def test_all_windows_within_the_envelope_are_equivalent_by_tier_1() -> None:
    found = judge_training(ARM, [PASSES, replace(PASSES, window=20, num_tested=40, largest=3e-6)], [])
    assert (found.verdict, found.tier, found.num_windows, found.num_steps) == ("equivalent", 1, 2, 100)
    assert found.largest == 3e-6
    assert found.reason == "within eager's own rounding for all 100 tested steps of 2 windows, at most 3.0e-06 apart"
    assert found.gaps == (
        "window 20, block 0: only the first 40 of 60 steps can be tested, then eager departs from itself",
    )


def test_bitwise_windows_are_equivalent_by_tier_0() -> None:
    found = judge_training(ARM, [BITWISE], [])
    assert (found.verdict, found.tier) == ("equivalent", 0)


def test_a_failing_window_overrides_tier_2() -> None:
    found = judge_training(ARM, [PASSES, FAILS], [margin("equivalent")])
    assert (found.verdict, found.tier) == ("different", 1)
    assert (found.block, found.window, found.first_step) == (0, 20, 22)
    assert (found.quantity, found.quantity_step) == ("lr", 20)
    assert found.reason == (
        "the loss leaves the envelope at step 22 (window 20, block 0); the learning rate departs first, at step 20"
    )


def test_masks_that_are_not_aligned_fall_back_to_tier_2_and_never_make_equivalence() -> None:
    assert judge_training(ARM, [SILENT], []).verdict == "not tested"
    found = judge_training(ARM, [PASSES, replace(SILENT, window=20)], [])
    assert found.verdict == "not tested"  # one window of two says nothing
    found = judge_training(ARM, [SILENT], [margin("inconclusive", why="one block", num_blocks=1)])
    assert (found.verdict, found.tier) == ("inconclusive", 2)
    assert "window 0, block 0: masks are not aligned" in found.gaps
    assert judge_training(ARM, [SILENT], [margin("equivalent")]).verdict == "equivalent"  # tier 2 decides


def test_tier_2_over_the_whole_training_stands_when_it_exceeds_the_margin() -> None:
    beyond = margin("different", difference=0.02, interval_95=(0.011, 0.029))
    found = judge_training(ARM, [PASSES], [margin("equivalent", "loss curve"), beyond])
    assert (found.verdict, found.tier) == ("different", 2)
    assert found.reason.startswith("its parity trials pass, but the whole training does not: final loss different")
    pilot = judge_training(ARM, [PASSES], [replace(beyond, num_blocks=4)])
    assert (pilot.verdict, pilot.tier) == ("equivalent", 1)


@pytest.mark.parametrize("word", ["different", "different within margin"])
def test_a_mere_difference_from_zero_does_not_take_away_tier_1(word: str) -> None:
    row = margin(word, interval_95=(0.001, 0.02))  # 5 % of equal arms have such an interval
    assert judge_training(ARM, [PASSES], [row]).verdict == "equivalent"
    assert judge_training(ARM, [], [row]).verdict == word


def test_what_is_beyond_a_margin() -> None:
    assert margin("different", interval_95=(-0.03, -0.011)).is_beyond
    assert not margin("different", interval_95=(0.009, 0.03)).is_beyond
    assert not margin("different", interval_95=(0.02, 0.03), margin=None).is_beyond
    better = margin("different", "validation metric", interval_95=(0.02, 0.03))
    assert not better.is_beyond
    assert replace(better, interval_95=(-0.03, -0.02)).is_beyond


def test_an_underpowered_tier_2_does_not_take_away_tier_1() -> None:
    assert judge_training(ARM, [PASSES], [margin("inconclusive")]).verdict == "equivalent"


def test_a_pilot_claims_nothing() -> None:
    found = judge_training(ARM, [], [margin("equivalent", num_blocks=3, why="pilot")])
    assert (found.verdict, found.tier) == ("inconclusive", 2)
    assert "pilot with 3 blocks" in found.reason


def test_the_worst_part_of_tier_2_decides() -> None:
    parts = [margin("equivalent"), margin("inconclusive", "loss curve")]
    assert second_tier(parts) == "inconclusive"
    assert second_tier([*parts, margin("different", "validation metric")]) == "different"
    no_margin = margin("inconclusive", "validation metric", margin=None)
    assert second_tier([margin("equivalent"), no_margin]) == "equivalent"
    assert second_tier([]) is None
    found = judge_training(ARM, [], parts)
    assert found.reason == (
        "loss curve inconclusive, difference +0.001, 90 % interval -0.001 to +0.003, margin 0.01, 8 blocks"
    )


def test_a_timed_trial_that_became_infinite_is_different() -> None:
    found = judge_training(ARM, [PASSES], [margin("equivalent")], lost="the loss is not finite at step 12")
    assert (found.verdict, found.tier, found.reason) == ("different", 2, "the loss is not finite at step 12")


def test_an_optimization_that_changes_more_than_it_declares_is_called_out() -> None:
    loose = judge_training(optimization("identical"), [PASSES], [], is_deterministic=True)
    assert (loose.verdict, loose.tier) == ("equivalent", 1)
    assert loose.called_out == (
        "declared identical, but not bitwise equal (largest relative deviation 2.0e-07, within rounding)"
    )
    beyond = judge_training(optimization("rounding"), [FAILS], [])
    assert beyond.verdict == "different"
    assert beyond.called_out.startswith("declared rounding, but the loss leaves the envelope at step 22")
    assert judge_training(optimization("rounding"), [PASSES], [], is_deterministic=True).called_out == ""
    assert judge_training(optimization("identical"), [BITWISE], [], is_deterministic=True).called_out == ""
    assert judge_training(optimization("identical"), [PASSES], []).called_out == ""  # eager is not bitwise itself


def test_an_optimization_that_declares_a_changed_training_is_judged_by_tier_2_alone() -> None:
    found = judge_training(optimization("training"), [FAILS], [margin("equivalent")], changes_training=["x"])
    assert (found.verdict, found.tier, found.called_out) == ("equivalent", 2, "")
    assert "x declares that it changes the training, so tier 2 decides" in found.gaps[0]


@pytest.mark.parametrize("outcome", ["non-finite loss", "different number of steps"])
def test_no_declaration_excuses_a_loss_that_is_not_finite_or_another_number_of_steps(outcome: str) -> None:
    row = replace(FAILS, outcome=outcome)
    found = judge_training(optimization("training"), [row], [margin("equivalent")], changes_training=["x"])
    assert (found.verdict, found.tier) == ("different", 1)


def test_a_gradient_that_departs_alone_is_said() -> None:
    row = replace(PASSES, quantity="gradient", quantity_step=4)
    found = judge_training(ARM, [row], [])
    assert found.verdict == "equivalent"
    assert found.gaps == ("window 0, block 0: the gradient leaves its own envelope at step 4, the loss does not",)


def test_a_margin_stated_post_hoc_is_labeled() -> None:
    found = judge_training(ARM, [], [margin("equivalent", stated="post hoc")])
    assert "margin 0.01, stated post hoc" in found.reason
    assert "final loss: its margin was stated post hoc" in found.gaps
