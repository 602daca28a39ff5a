"""Losses of a few steps, worked by hand -> deviation, envelope, tested steps, and what departs first."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.analysis.statistics.envelope import (
    FLOOR,
    WindowSeries,
    compare_window,
    compare_with_envelope,
    eager_envelope,
    relative_deviation,
)

EAGER = np.array([2.0, 1.0, 0.5, 0.25])


def scaled(*ratios: float) -> np.ndarray:
    """Eager's losses moved by these relative amounts."""
    return EAGER * (1.0 + np.array(ratios))


def series(loss: np.ndarray, **changes: np.ndarray | None) -> WindowSeries:
    columns = {"grad_norm": np.ones(len(loss)), "lr": np.full(len(loss), 0.01), "mask": np.arange(1, len(loss) + 1)}
    return WindowSeries(loss=loss, **{**columns, **changes})  # type: ignore[arg-type]


def test_envelope_is_the_running_maximum_over_reruns_with_a_floor() -> None:
    envelope = eager_envelope(EAGER, [scaled(0, 1e-6, 0, 3e-6), scaled(0, 0, -2e-6, 0)])
    assert pytest.approx(2.384185791015625e-07) == FLOOR
    assert envelope == pytest.approx([FLOOR, 1e-6, 2e-6, 3e-6], rel=1e-6)


def test_within_ten_times_the_envelope_passes_and_beyond_names_the_step() -> None:
    reruns = [scaled(1e-6, 1e-6, 1e-6, 1e-6)]
    inside = compare_with_envelope(scaled(0, 9e-6, -9.9e-6, 0), EAGER, reruns)
    assert (inside.passed, inside.first_beyond, inside.cause, inside.num_tested) == (True, None, "", 4)
    assert inside.largest == pytest.approx(9.9e-6, rel=1e-6)
    outside = compare_with_envelope(scaled(0, 9e-6, 1.1e-5, 0), EAGER, reruns)
    assert (outside.passed, outside.first_beyond, outside.cause) == (False, 2, "beyond the envelope")


def test_nothing_is_tested_once_eager_does_not_repeat_itself() -> None:
    reruns = [scaled(0, 1e-6, 2e-5, 0)]  # the running maximum exceeds 1e-5 at step 2
    test = compare_with_envelope(scaled(0, 0, 0.5, 0.5), EAGER, reruns)
    assert (test.num_tested, test.first_beyond, test.passed) == (2, None, False)
    assert test.largest == 0.0  # of the tested steps
    at_once = compare_with_envelope(EAGER, EAGER, [scaled(1e-3, 0, 0, 0)])
    assert (at_once.num_tested, at_once.first_beyond, at_once.passed) == (0, None, False)


@pytest.mark.parametrize(("num_repeated", "passes"), [(9, False), (10, True)])
def test_a_window_needs_ten_tested_steps_to_pass(num_repeated: int, passes: bool) -> None:
    eager = np.ones(60)
    reruns = [np.where(np.arange(60) < num_repeated, 1.0, 1.5)]
    wrong_later = np.where(np.arange(60) < num_repeated, 1.0, 2.0)
    assert compare_with_envelope(wrong_later, eager, reruns).passed is passes
    test = compare_window(series(eager), series(eager), [series(reruns[0])])
    assert test.outcome == ("within the envelope" if passes else "says nothing")


def test_other_masks_or_rates_are_never_within_the_envelope() -> None:
    eager = series(EAGER)
    assert compare_window(series(EAGER), eager, [eager]).outcome == "within the envelope"
    masks, rates = series(EAGER, mask=np.array([1, 2, 3, 5])), series(EAGER, lr=np.full(4, 0.011))
    assert compare_window(masks, eager, [eager]).outcome == "different dropout masks"
    assert compare_window(rates, eager, [eager]).outcome == "different learning rate"
    lost = compare_window(series(np.array([2.0, np.nan])), eager, [eager])
    assert lost.outcome == "non-finite loss"


@pytest.mark.parametrize("is_first", [True, False])
def test_whichever_of_two_becomes_infinite_is_found_even_after_the_tested_steps(is_first: bool) -> None:
    """`full` against `full` without an optimization: eager, whose envelope it is, stays finite."""
    reruns = [scaled(0, 2e-5, 0, 0)]
    lost, kept = np.array([2.0, 1.0, np.nan]), EAGER
    test = compare_with_envelope(*((lost, EAGER, reruns, kept) if is_first else (kept, EAGER, reruns, lost)))
    assert (test.num_tested, test.first_beyond, test.cause) == (1, 2, "non-finite loss")


def test_a_loss_that_is_not_finite_is_different_even_after_the_tested_steps() -> None:
    reruns = [scaled(0, 2e-5, 0, 0)]
    test = compare_with_envelope(np.array([2.0, 1.0, np.nan]), EAGER, reruns)  # the window stopped there
    assert (test.num_tested, test.first_beyond, test.cause, test.passed) == (1, 2, "non-finite loss", False)
    assert test.largest == np.inf


def test_a_different_number_of_steps_is_different() -> None:
    short = compare_with_envelope(EAGER[:3], EAGER, [EAGER])
    assert (short.first_beyond, short.cause) == (3, "different number of steps")
    long = compare_with_envelope(np.append(EAGER, 0.1), EAGER, [EAGER])
    assert (long.first_beyond, long.cause) == (4, "different number of steps")


def test_where_eager_itself_is_not_finite() -> None:
    eager = np.array([2.0, 1.0, np.inf])
    same = compare_with_envelope(np.array([2.0, 1.0, np.nan]), eager, [eager])
    assert (same.passed, same.num_tested) == (True, 3)  # it ended where eager ended
    other = compare_with_envelope(np.array([2.0, 1.0, 0.5, 0.2]), eager, [eager])
    assert (other.first_beyond, other.cause) == (2, "non-finite loss")
    unsure = compare_with_envelope(np.array([2.0, 1.0, 0.5]), eager, [np.array([2.0, 1.0, 0.5])])
    assert (unsure.num_tested, unsure.first_beyond) == (2, None)  # eager's own rerun did not end there


def test_a_rerun_that_ended_early_ends_the_tested_steps() -> None:
    assert eager_envelope(EAGER, [np.array([2.0, np.nan])]) == pytest.approx([FLOOR, np.inf, np.inf, np.inf])


def test_deviation_from_zero() -> None:
    assert relative_deviation(np.array([0.0, 1.0]), np.zeros(2)).tolist() == [0.0, np.inf]


def test_no_rerun_is_no_envelope() -> None:
    with pytest.raises(ValueError, match="at least one eager rerun"):
        eager_envelope(EAGER, [])


def test_the_quantity_that_departs_first() -> None:
    eager = series(EAGER)
    lr_too_large = series(scaled(0, 1e-3, 1e-3, 1e-3), lr=np.full(4, 0.01 * 1.02))
    test = compare_window(lr_too_large, eager, [eager])
    assert test.departures == (("lr", 0), ("loss", 1))
    assert test.first == ("lr", 0)
    no_dropout = series(scaled(0.1, 0.1, 0.1, 0.1), mask=np.zeros(4, dtype=int), grad_norm=np.full(4, 1.1))
    assert compare_window(no_dropout, eager, [eager]).departures == (("mask", 0), ("gradient", 0), ("loss", 0))
    stale_batch = series(scaled(0, 0, 1e-3, 0), grad_norm=np.array([1.0, 1.0, 1.5, 1.0]))
    assert compare_window(stale_batch, eager, [eager]).first == ("gradient", 2)
    assert compare_window(series(EAGER), eager, [eager]).first is None


def test_a_learning_rate_in_float32_is_the_same_learning_rate() -> None:
    eager = series(EAGER, lr=np.full(4, 0.1))
    rounded = series(EAGER, lr=np.full(4, np.float64(np.float32(0.1))))
    assert compare_window(rounded, eager, [eager]).first is None


def test_masks_that_nobody_looked_at_do_not_depart() -> None:
    eager = series(EAGER)
    assert compare_window(series(EAGER, mask=None), eager, [eager]).first is None


def test_a_shorter_run_compares_the_steps_it_has() -> None:
    eager = series(EAGER)
    test = compare_window(series(np.array([2.0, np.inf])), eager, [eager])
    assert test.departures == (("loss", 1),)


def test_two_arms_against_each_other_in_the_envelope_of_eager() -> None:
    eager, without = series(EAGER), series(scaled(0, 3e-6, 3e-6, 3e-6))
    full = series(scaled(0, -3e-6, 3e-6, 3e-6))
    reruns = [series(scaled(5e-7, 5e-7, 5e-7, 5e-7))]
    assert compare_window(full, eager, reruns).loss.passed  # 3e-6 of at most 5e-6
    test = compare_window(full, eager, reruns, without)  # 6e-6 apart
    assert (test.loss.first_beyond, test.loss.largest) == (1, pytest.approx(6e-6, rel=1e-4))
