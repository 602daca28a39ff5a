"""Series with planted levels -> cuts where ruptures finds them, and merged levels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ablate.analysis.statistics.change_points import find_cuts, find_levels


def noisy(levels: list[tuple[int, float]], seed: int = 0, noise: float = 0.02) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.concatenate([level * (1 + noise * generator.standard_normal(n)) for n, level in levels])


@pytest.mark.parametrize("seed", range(8))
def test_cuts_are_those_of_ruptures(seed: int) -> None:
    ruptures = pytest.importorskip("ruptures")
    generator = np.random.default_rng([7, seed])
    num_steps = int(generator.integers(100, 240))
    series = generator.normal(1.0, 0.02, num_steps)
    for _ in range(int(generator.integers(0, 3))):
        series[int(generator.integers(0, num_steps)) :] *= 1 + generator.normal(0.0, 0.08)
    scaled = (series - series.mean()) / series.std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pelt = ruptures.Pelt(model="normal", min_size=10, jump=5).fit(scaled)
    theirs = [cut for cut in pelt.predict(pen=15 * np.log(num_steps)) if cut < num_steps]
    assert find_cuts([series]) == [theirs]


def test_series_cut_together_are_cut_as_alone() -> None:
    series = [noisy([(100, 1.0), (100, 1.2)], 1), noisy([(200, 1.0)], 2), noisy([(60, 1.0), (138, 0.8)], 3)]
    together = find_levels(series, [0, 0, 0])
    assert together == [find_levels([s], [0])[0] for s in series]
    assert [len(levels) for levels in together] == [2, 1, 2]
    assert together[0][1].start == 100
    assert together[0][1].median_s == pytest.approx(1.2, abs=0.01)


def test_levels_within_one_percent_are_one() -> None:
    close = noisy([(300, 1.0), (300, 1.008)], noise=0.001)
    apart = noisy([(300, 1.0), (300, 1.03)], noise=0.001)
    assert find_cuts([close]) == [[300]]  # the change is seen
    assert [len(found) for found in find_levels([close, apart], [0, 0])] == [1, 2]


def test_steps_before_the_last_compilation_do_not_count() -> None:
    series = np.concatenate([noisy([(40, 5.0)]), noisy([(200, 1.0)], 4)])
    assert [level.start for level in find_levels([series], [40])[0]] == [40]
    assert find_levels([series], [230]) == [()]  # ten steps left: too few to say anything
