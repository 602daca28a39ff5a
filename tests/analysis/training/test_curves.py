"""Losses worked out by hand -> how far a curve is from eager's."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.analysis.statistics.envelope import relative_deviation
from ablate.analysis.training.curves import curve_distance


def test_relative_deviation_by_hand() -> None:
    loss, eager = np.array([1.0, 0.9, 0.0, 0.5]), np.array([1.0, 1.0, 0.0, 0.0])
    assert relative_deviation(loss, eager) == pytest.approx([0.0, 0.1, 0.0, np.inf])


def test_curve_distance_by_hand() -> None:
    found = curve_distance("full", 0, np.array([1.0, 1.000001, 1.1]), np.array([1.0, 1.0, 1.0]))
    assert (found.max_deviation, found.first_step_beyond, found.final_loss) == (pytest.approx(0.1), 2, 1.1)


def test_curves_of_unlike_length_or_not_finite_are_not_compared_blindly() -> None:
    shorter = curve_distance("full", 0, np.array([1.0]), np.array([1.0, 1.0]))
    assert shorter.max_deviation is None and "1 against 2" in shorter.note
    broken = curve_distance("full", 0, np.array([1.0, np.nan]), np.array([1.0, 1.0]))
    assert (broken.first_step_beyond, broken.final_loss, broken.max_deviation) == (1, None, None)
