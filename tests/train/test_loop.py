"""Steady and horizon time of epochs that were added up by hand."""

import pytest

from ablate.train.loop import summarize_times


def summarize(epoch_s, compile_steps, **changes):
    settings = {
        "steps_per_epoch": 10,
        "horizon_epochs": 10,
        "compile_s": 5.0,
        "wait_s": [0.1] * 10 * len(epoch_s),
        "first_step_s": 4.0,
        **changes,
    }
    return summarize_times(epoch_s, compile_steps, **settings)


def test_horizon_is_start_up_plus_steady_epochs():
    times = summarize([9.0, 2.0, 3.0, 2.0], [0, 1])
    assert times.steady_s == 2.0
    assert times.steady_epochs == (1, 2, 3)
    assert times.startup_s == 16.0 - 4 * 2.0
    assert times.horizon_s == 8.0 + 10 * 2.0
    assert times.loader_wait_s == pytest.approx((1.0, 1.0, 1.0, 1.0))


def test_an_epoch_that_recompiles_is_not_steady_and_its_excess_counts_as_start_up():
    times = summarize([9.0, 2.0, 6.0, 2.0], [0, 25])
    assert times.steady_epochs == (1, 3)
    assert times.startup_s == 19.0 - 8.0


def test_no_quiet_epoch_means_no_steady_state_and_no_horizon():
    times = summarize([9.0, 8.0], [0, 12])
    assert times.steady_s is times.startup_s is times.horizon_s is None
    assert times.steady_epochs == ()


def test_the_first_epoch_is_never_steady():
    assert summarize([2.0], []).steady_s is None
    assert summarize([3.0, 2.0], []).steady_s == 2.0
