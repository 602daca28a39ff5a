"""Planted drift and outliers -> findings with what to do."""

from __future__ import annotations

import math

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.design.cells import make_design
from builders import make_factors, make_study
from simulated import analyzed_in_memory, timed

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def test_a_drift_along_the_order_is_found_and_measured() -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        return timed(record, math.exp(0.10 * planned.order / (num_keys - 1)))

    study = make_study(blocks=6, factors=make_factors(THREE))
    num_keys = len(make_design(study).effective_keys)
    results = analyzed_in_memory(study, noise=0.002, change=change)
    found = results.quality.run_order
    assert found is not None and found.drift == pytest.approx(math.exp(0.10), abs=0.01)
    assert found.interval is not None and found.interval[0] < math.exp(0.10) < found.interval[1]
    assert any("times drift by +" in f.text for f in results.quality.findings)
    assert not any("times drift" in f.text for f in analyzed_in_memory(study, noise=0.002).quality.findings)


def test_an_outlier_is_named_and_stays_in() -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        return timed(record, 1.5) if planned.block == 2 and planned.cell.name == "full" else record

    results = analyzed_in_memory(make_study(blocks=6, factors=make_factors(THREE)), noise=0.005, change=change)
    text = next(f.text for f in results.quality.findings if "lie far from" in f.text)
    assert "full in block 2" in text and "more blocks" in text
    total = results.speed.effect("steady", "total")
    assert total is not None and total.estimate is not None and total.estimate.blocks == (0, 1, 2, 3, 4, 5)
