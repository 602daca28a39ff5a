"""Losses of eager seeds -> margins by hand, and refusals where they would mean nothing."""

from __future__ import annotations

import math

import pytest

from ablate.analysis.training.margin_tests import propose_margins
from ablate.core.errors import UserError


def test_margins_by_hand() -> None:
    found = propose_margins([0.1, 0.3] * 10, [0.70, 0.72] * 10)
    sd = 0.1 * math.sqrt(20 / 19)  # ten losses .1 below the mean and ten .1 above it
    assert found.loss.mean == pytest.approx(0.2)
    assert (found.loss.sd, found.loss.strict) == pytest.approx((sd, 0.5 * sd))
    assert found.loss.ceiling == pytest.approx(0.954 * sd)
    assert found.metric is not None and found.metric.strict == pytest.approx(0.05 * sd)


def test_too_few_seeds_are_refused_unless_told() -> None:
    with pytest.raises(UserError, match="need 20 eager seeds, there are 3 final losses"):
        propose_margins([0.1, 0.2, 0.3])
    assert propose_margins([0.1, 0.2, 0.3], fewest_seeds=3).loss.sd == pytest.approx(0.1)
    with pytest.raises(UserError, match="need 2 eager seeds"):
        propose_margins([0.1], fewest_seeds=1)


def test_a_loss_that_is_not_finite_gives_no_margin() -> None:
    with pytest.raises(UserError, match="not finite"):
        propose_margins([0.1] * 19 + [math.nan])
