"""Noisy studies -> the blocks that narrower intervals need, and when a sequential study stops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ablate.analysis.speed.precision import narrow_enough, widest
from ablate.analysis.statistics.inference import blocks_for_width
from ablate.core.study import Sequential
from builders import make_factors, make_study
from simulated import analyzed_in_memory

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def test_wide_intervals_say_how_many_blocks_are_needed() -> None:
    results = analyzed_in_memory(make_study(blocks=5, factors=make_factors(THREE)), noise=0.1, seed=2)
    row = next(p for p in results.speed.precision if p.response == "steady")
    assert row.kind == "optimization" and row.half_width > 0.02
    assert any("takes about" in f.text or "more than 400" in f.text for f in results.quality.findings)
    spreads = [
        float(np.std(e.estimate.per_block, ddof=1))
        for e in results.speed.effects
        if e.estimate and (e.response, e.kind) == ("steady", "optimization")
    ]
    assert row.blocks_needed[1].blocks == blocks_for_width(max(spreads), 0.02, family=3)


def test_a_sequential_study_widens_its_intervals_and_stops_on_width() -> None:
    fixed = make_study(blocks=5, factors=make_factors(THREE))
    looking = replace(fixed, sequential=Sequential(target=0.02))
    assert fixed.hash == looking.hash
    plain, wide = (analyzed_in_memory(study, noise=0.02) for study in (fixed, looking))
    one, two = (r.speed.effect("steady", "total") for r in (plain, wide))
    assert one and two and one.estimate and two.estimate and one.estimate.interval and two.estimate.interval
    t_97, t_95 = 3.298, 2.776  # quantiles of t(4)
    ratio = math.log(two.estimate.interval[1] / two.estimate.speedup) / math.log(
        one.estimate.interval[1] / one.estimate.speedup
    )
    assert ratio == pytest.approx(t_97 / t_95, rel=1e-3)
    steady = [e for e in wide.speed.effects if e.response == "steady"]
    width = widest(steady)
    assert width is not None
    assert narrow_enough([wide.speed.effects], "steady", width + 1e-9)
    assert not narrow_enough([wide.speed.effects], "steady", width - 1e-9)
    assert not narrow_enough([wide.speed.effects], "horizon_cold", 1.0)  # one block has no interval
