"""Differences of a few blocks, solved with a table of t quantiles -> inside the margin, different, both, or neither."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.analysis.statistics.tost import (
    bin_losses,
    curve_test,
    final_loss,
    margin_test,
    non_inferiority_test,
    verdict,
)

VALUES = np.array([0.1, 0.2, 0.3, 0.2, 0.2])  # mean .2, sd .0707107, five blocks
ERROR = 0.07071068 / math.sqrt(5)
HALF_90, HALF_95 = 2.131847 * ERROR, 2.776445 * ERROR  # t(4; .95), t(4; .975)


def word(values: np.ndarray, margin: float | None) -> str:
    test = margin_test(values, margin)
    return verdict(inside=bool(test.inside), differs=bool(test.differs))


def test_intervals_by_hand() -> None:
    test = margin_test(VALUES, 0.3)
    assert (test.mean, test.half_90, test.half_95) == pytest.approx((0.2, HALF_90, HALF_95), rel=1e-6)


def test_the_four_verdicts() -> None:
    assert word(VALUES, 0.3) == "different within margin"  # .2 + .0674 inside .3; .2 - .0878 above 0
    assert word(VALUES, 0.25) == "different"
    assert word(VALUES - 0.2, 0.1) == "equivalent"
    assert word(VALUES - 0.2, 0.06) == "inconclusive"  # the half-width is .0674
    assert word(VALUES, None) == "different"


def test_exactly_equal_losses_are_equivalent_and_an_exact_shift_is_not() -> None:
    assert word(np.zeros(3), 0.001) == "equivalent"
    assert word(np.full(3, 0.5), 0.001) == "different"


def test_not_significant_is_not_equivalent() -> None:
    wild = np.array([-1.0, 1.0, -0.9, 0.9, 0.1])
    assert word(wild, 0.01) == "inconclusive"


def test_a_curve_is_inside_only_when_every_bin_is() -> None:
    flat, off = VALUES - 0.2, VALUES
    same = curve_test(np.array([flat, flat]), 0.1)
    assert (bool(same.inside), bool(same.differs)) == (True, False)
    one = curve_test(np.array([flat, off]), 0.1)
    assert (bool(one.inside), bool(one.differs)) == (False, True)
    assert one.mean == pytest.approx([0.0, 0.2], abs=1e-12)
    # Bonferroni over 20 bins: 6.758 = t(4; .99875) standard errors are .214 > .2, so one bin of 20 is not enough
    many = curve_test(np.array([flat] * 19 + [off]), 0.1)
    assert not many.differs
    assert many.half_95[-1] == pytest.approx(6.758 * ERROR, rel=1e-4)


def test_non_inferiority_is_one_sided() -> None:
    better, worse = VALUES, -VALUES
    assert bool(non_inferiority_test(better, 0.01).inside)
    assert not non_inferiority_test(better, 0.01).differs
    assert not non_inferiority_test(worse, 0.25).inside  # -.2 - .0674 is below -.25
    assert bool(non_inferiority_test(worse, 0.27).inside)
    assert bool(non_inferiority_test(worse, 0.25).differs)
    assert not non_inferiority_test(better, None).inside


def test_bins_and_final_loss_by_hand() -> None:
    loss = np.arange(40.0)
    assert bin_losses(loss).tolist() == [0.5 + 2 * i for i in range(20)]
    assert final_loss(loss) == 38.5
    assert bin_losses(np.array([3.0, 2.0, 1.0])).tolist() == [3.0, 2.0, 1.0]  # fewer steps than bins
    assert len(bin_losses(np.arange(1001.0))) == 20
    assert float(np.mean(bin_losses(np.ones(1001)))) == 1.0


def test_studies_are_judged_together_as_one_by_one() -> None:
    several = np.array([VALUES, VALUES - 0.2, -VALUES])
    together = margin_test(several, 0.25)
    assert together.inside.tolist() == [bool(margin_test(v, 0.25).inside) for v in several]
    assert together.differs.tolist() == [True, False, True]
