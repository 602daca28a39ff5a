"""Small arrays -> intervals and p-values that tables and hand calculation give, for many studies at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from ablate.analysis.statistics import engine
from ablate.core.study import LOOKS
from benchmarks.validity import stopping

T_975_2, T_975_4 = 4.302653, 2.776445


def test_values_are_one_matrix_product() -> None:
    weights = engine.weight_matrix([{"a": 1.0, "b": -1.0}, {"c": 2.0}], ["a", "b", "c"])
    assert weights.tolist() == [[1.0, -1.0, 0.0], [0.0, 0.0, 2.0]]
    times = np.array([[[3.0, 5.0], [1.0, 1.0], [0.5, 0.0]]])  # one study, three cells, two blocks
    assert engine.contrast_values(weights, times).tolist() == [[[2.0, 4.0], [1.0, 0.0]]]


def test_block_t_of_two_studies_by_hand() -> None:
    found = engine.block_t(np.array([[0.1, 0.2, 0.3], [1.0, 1.0, 1.0]]))
    assert found.mean == pytest.approx([0.2, 1.0])
    assert found.half == pytest.approx([T_975_2 * 0.1 / math.sqrt(3), 0.0], rel=1e-6)
    assert found.p[1] == 0.0
    assert found.covers(np.array([0.4, 1.1])).tolist() == [True, False]


def test_a_constant_zero_is_no_effect() -> None:
    assert float(engine.block_t(np.zeros(4)).p) == 1.0


def test_epochs_are_summarized_by_hand() -> None:
    logs = np.log(np.array([[1.0, 2.0, 4.0, 8.0], [3.0, 3.0, 3.0, 9.0]]))
    assert np.exp(engine.epoch_summary(logs)) == pytest.approx([3.0, 3.0])  # median of an even number: the middle
    assert np.exp(engine.epoch_summary(logs[:, :3])) == pytest.approx([2.0, 3.0])
    assert np.exp(engine.epoch_summary(logs, "mean")) == pytest.approx([3.75, 4.5])
    assert np.exp(engine.epoch_summary(logs, "min")) == pytest.approx([1.0, 3.0])


def test_holm_of_two_studies_by_hand() -> None:
    found = engine.holm(np.array([[0.02, 0.9, 0.01], [0.5, 0.4, 0.03]]))
    assert found[0] == pytest.approx([0.04, 0.9, 0.03])
    assert found[1] == pytest.approx([0.8, 0.8, 0.09])


def test_holm_agrees_with_statsmodels() -> None:
    generator = np.random.default_rng(0)
    for num in (1, 2, 7, 30):
        p = generator.random(num) ** 3
        p[0] = p[-1]  # a tie
        assert engine.holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_a_study_stops_at_the_first_narrow_look() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(0.0, 1.0, (1, 2, 40))
    widths = {
        look: float(stopping.simultaneous_half(values[..., :look], level=engine.SEQUENTIAL_LEVEL)[0]) for look in LOOKS
    }
    for look in LOOKS[:-1]:
        first = next(other for other in LOOKS if widths[other] <= widths[look])
        assert stopping.stopping_blocks(values, widths[look], looks=LOOKS).tolist() == [first]
    assert stopping.stopping_blocks(values, 0.0, looks=LOOKS).tolist() == [40]
    assert stopping.stopping_blocks(values, 1e9, looks=LOOKS).tolist() == [5]


def test_the_widest_of_a_family_decides() -> None:
    narrow, wide = np.array([0.0, 1.0, 0.0, 1.0, 0.5]), np.array([0.0, 2.0, 0.0, 2.0, 1.0])
    both = np.stack([narrow, wide])[None]
    assert stopping.simultaneous_half(both)[0] == pytest.approx(engine.block_t(wide, family=2).half)


def test_satterthwaite_with_equal_variances_by_hand() -> None:
    # two cells, residuals of each +-0.5 around the block means: variance .5 each, times 2/1 for the means taken out
    y = np.array([[1.0, 0.0], [0.0, 1.0]])
    mean, half = engine.satterthwaite(np.array([[1.0, -1.0]]), y)
    assert mean == pytest.approx([0.0])
    squared = 2 * (0.5 * 2) / 2
    degrees = squared**2 / (2 * (0.5 * 2 / 2) ** 2 / 1)  # = 2
    assert degrees == pytest.approx(2.0)
    assert half == pytest.approx([T_975_2 * math.sqrt(squared)], rel=1e-6)


def test_bootstrap_interval_of_known_resamples() -> None:
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    low, high = engine.bootstrap_interval(np.array([[0.0, 1.0]]), shares, level=1.0)
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])
    drawn = engine.resample_counts(5, 300, np.random.default_rng(3))
    assert drawn.shape == (300, 5) and np.allclose(drawn.sum(axis=1), 1.0)


def test_quantiles_are_those_of_a_table() -> None:
    assert engine.quantile(4) == pytest.approx(T_975_4, rel=1e-6)
    assert engine.quantile(4, family=5) == pytest.approx(4.604095, rel=1e-6)
