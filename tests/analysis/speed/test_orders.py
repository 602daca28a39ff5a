"""Planted interactions -> how far a rung of the ladder depends on the order."""

from __future__ import annotations

import math

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from builders import make_factors, make_study
from simulated import analyzed_in_memory, timed

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def test_the_ladder_has_its_range_over_all_orders() -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        on = {name for name in planned.cell.on if name not in planned.cell.inert}
        gain = 0.02 * ("tensor_lr" in on) + 0.05 * ({"tensor_lr", "sync_free"} <= on)
        return timed(record, math.exp(-gain) if planned.cell.cell.execution == "compiled" else 1.0)

    results = analyzed_in_memory(make_study(blocks=2, factors=make_factors(THREE)), change=change)
    rows = {r.optimization: r for r in results.speed.order_ranges if r.response == "steady"}
    lr = rows["tensor_lr"]  # alone 2 %, after sync_free 2 + 5 %; in the guide's order it comes before sync_free
    assert math.log(lr.low) == pytest.approx(0.02, abs=1e-12)
    assert math.log(lr.high) == pytest.approx(0.07, abs=1e-12)
    assert math.log(lr.guide) == pytest.approx(0.02, abs=1e-12)
    assert "sync_free" in lr.high_after and "sync_free" not in lr.low_after
    assert math.log(rows["sync_free"].guide) == pytest.approx(0.05, abs=1e-12)
    assert lr.num_places == 4
