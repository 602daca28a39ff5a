"""Studies with known times -> the same number under other summaries and other intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from builders import make_factors, make_study
from simulated import analyzed_in_memory

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def test_sensitivity_columns_stand_beside_the_primary_number() -> None:
    results = analyzed_in_memory(
        make_study(blocks=6, factors=make_factors(THREE)), noise=0.02, effects={"sync_free": 0.05}
    )
    steady = [s for s in results.speed.sensitivity if (s.response, s.kind, s.subject) == ("steady", "total", "")]
    assert [s.method for s in steady] == ["Satterthwaite", "cluster bootstrap", "mean of epochs", "fastest epoch"]
    total = results.speed.effect("steady", "total")
    assert total is not None and total.estimate is not None and total.estimate.interval is not None
    for row in steady:  # the simulated steady epochs of a trial are equal, so the center is the same
        assert row.speedup == pytest.approx(total.estimate.speedup, abs=1e-12)
    bootstrap = steady[1].interval
    assert bootstrap is not None
    assert bootstrap[1] - bootstrap[0] < total.estimate.interval[1] - total.estimate.interval[0]


def test_mean_and_fastest_epoch_by_hand() -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        assert record.times is not None
        epochs = (9.0, 4.0, 8.0) if planned.cell.name == "eager" else (9.0, 2.0, 2.0)
        return replace(record, times=replace(record.times, epoch_s=epochs, steady_epochs=(1, 2)))

    results = analyzed_in_memory(make_study(blocks=2, factors=make_factors(THREE)), change=change)
    found = {s.method: s.speedup for s in results.speed.sensitivity if (s.response, s.kind) == ("steady", "total")}
    assert found["mean of epochs"] == pytest.approx(6.0 / 2.0)
    assert found["fastest epoch"] == pytest.approx(4.0 / 2.0)
