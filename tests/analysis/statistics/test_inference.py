"""Three numbers -> the block-t interval that a table of t quantiles gives; Holm by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.analysis.statistics.inference import estimate, grade, half_width, holm, p_value


def test_three_blocks_by_hand() -> None:
    values = np.array([0.1, 0.2, 0.3])  # mean .2, sd .1, t(2; .975) = 4.302653
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert half_width(values) == pytest.approx(half, rel=1e-6)
    est = estimate([0.1, 0.2, 0.3], [0, 1, 4])
    assert est.effect == pytest.approx(0.2)
    assert est.speedup == pytest.approx(math.exp(0.2))
    assert est.interval == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)), rel=1e-6)
    assert est.blocks == (0, 1, 4)
    assert est.grade == "pilot"


def test_bonferroni_over_five_uses_the_995_quantile() -> None:
    values = np.array([0.0, 1.0, 0.0, 1.0, 0.5])  # sd .5, t(4; .995) = 4.604095
    assert half_width(values, family=5) == pytest.approx(4.604095 * 0.5 / math.sqrt(5), rel=1e-6)


def test_one_block_has_no_interval() -> None:
    est = estimate([0.7], [0], family=5)
    assert (est.interval, est.simultaneous, est.p_holm, est.grade) == (None, None, None, "single")


def test_grades() -> None:
    assert [grade(n) for n in (1, 2, 4, 5, 20)] == ["single", "pilot", "pilot", "full", "full"]


def test_p_value_by_hand() -> None:
    # mean .2, sd .1, n 3: t = 3.4641; two-sided with 2 degrees of freedom: 1 - t / sqrt(t^2 + 2)
    t = 0.2 / (0.1 / math.sqrt(3))
    assert p_value(np.array([0.1, 0.2, 0.3])) == pytest.approx(1 - t / math.sqrt(t**2 + 2), rel=1e-9)
    assert p_value(np.array([0.2, 0.2])) == 0.0
    assert p_value(np.array([0.0, 0.0])) == 1.0
    assert p_value(np.array([0.2])) is None


def test_holm_by_hand() -> None:
    # sorted .01 (x3 = .03), .02 (x2 = .04), .9 (x1)
    assert holm([0.02, 0.9, 0.01]) == pytest.approx([0.04, 0.9, 0.03])
    assert holm([0.03, 0.02]) == pytest.approx([0.04, 0.04])  # never smaller than the one before
    assert holm([]) == []


def test_wild_blocks_do_not_overflow() -> None:
    est = estimate([-300.0, 300.0], [0, 1])
    assert est.interval is not None
    assert all(math.isfinite(x) for x in est.interval)
