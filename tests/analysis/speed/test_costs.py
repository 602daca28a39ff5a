"""Times worked out by hand -> where the horizon goes, and break-even."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.analysis.speed.costs import _bar, break_even, horizon_parts
from ablate.core.record import Times


def times(**changes: object) -> Times:
    base = Times(
        epoch_s=(25.0, 5.0, 5.0), steady_epochs=(1, 2),
        horizon_epochs=10, compile_s=18.0, loader_wait_s=(1.5, 1.0, 1.0), first_step_s=19.0,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def test_ledger_by_hand() -> None:
    # 10 epochs x 1.0 s wait, and 0.5 s more in the first; the rest of 70 s trains
    assert horizon_parts(times()) == pytest.approx((18.0, 10.5, 41.5))


def test_on_a_device_the_wait_is_an_upper_bound() -> None:
    assert not _bar("full", "cold", {0: times()}).overlaps
    assert _bar("full", "cold", {0: times(), 1: times(step_clock="device")}).overlaps


def test_ledger_never_exceeds_the_horizon() -> None:
    compiling, waiting, training = horizon_parts(times(compile_s=90.0))
    assert (compiling, waiting, training) == (70.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("startup", "saving", "verdict", "epochs"),
    [(40.0, 2.0, "after", 20.0), (-1.0, 2.0, "at once", 0.0), (40.0, 0.0, "never", None), (40.0, -1.0, "never", None)],
)
def test_break_even_by_hand(startup: float, saving: float, verdict: str, epochs: float | None) -> None:
    found = break_even("cold", startup, saving)
    assert (found.verdict, found.epochs) == (verdict, epochs)
