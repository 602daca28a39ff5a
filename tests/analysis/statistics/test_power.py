"""Effects and spreads -> power by hand and by simulation, blocks and detectable effects that fit together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.analysis.statistics.inference import (
    blocks_for_width,
    blocks_to_detect,
    expected_half_width,
    power_of,
    smallest_detectable,
)

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def test_power_by_hand_and_by_simulation() -> None:
    # sd 1 and a shift of 3: noncentral t with 4 degrees of freedom
    generator = np.random.default_rng(5)
    effect, sd = 0.03, math.log1p(0.03) * math.sqrt(5) / 3
    values = generator.normal(math.log1p(effect), sd, (200_000, 5))
    error = values.std(axis=1, ddof=1) / math.sqrt(5)
    simulated = float(np.mean(np.abs(values.mean(axis=1)) > 2.776445 * error))
    assert power_of(effect, sd, 5) == pytest.approx(simulated, abs=0.005)
    assert power_of(0.0, sd, 5) == pytest.approx(0.05, abs=0.001)
    assert power_of(0.5, 1e-3, 5) == pytest.approx(1.0)
    assert expected_half_width(0.01, 5) == pytest.approx(math.expm1(2.776445 * 0.01 / math.sqrt(5)), rel=1e-6)


def test_blocks_and_detectable_effects_fit_together() -> None:
    sd = 0.02
    needed = blocks_to_detect(sd, 0.02)
    assert needed is not None
    assert power_of(0.02, sd, needed) >= 0.9 > power_of(0.02, sd, needed - 1)
    assert smallest_detectable(sd, needed) <= 0.02 < smallest_detectable(sd, needed - 1)
    narrow = blocks_for_width(sd, 0.02, family=5)
    assert narrow is not None
    assert expected_half_width(sd, narrow, family=5) <= 0.02 < expected_half_width(sd, narrow - 1, family=5)
    assert blocks_for_width(10.0, 0.001) is None
