"""A total and a claimed range -> supported, refuted, undecided; a pilot claims nothing."""

from __future__ import annotations

import math

import pytest

from ablate.analysis.results.effects import Effect
from ablate.analysis.speed.claims import judge, make_claims
from ablate.analysis.statistics.inference import estimate
from ablate.core.study import Claim


def total(speedups: list[float]) -> Effect:
    values = [math.log(s) for s in speedups]
    return Effect(response="steady", kind="total", subject="", estimate=estimate(values, range(len(values))))


@pytest.mark.parametrize(
    ("speedups", "verdict", "place"),
    [
        ([1.32, 1.321, 1.322, 1.32, 1.321], "supported", "inside"),
        ([1.04, 1.05, 1.04, 1.05, 1.04], "refuted", "below"),
        ([1.60, 1.61, 1.60, 1.61, 1.60], "refuted", "above"),
        ([1.2, 1.4, 1.3, 1.25, 1.35], "undecided", "overlapping"),
        ([1.32, 1.321, 1.322, 1.32], "pilot", "inside"),
        ([1.04], "pilot", "below"),
    ],
)
def test_verdicts(speedups: list[float], verdict: str, place: str) -> None:
    assert judge(total(speedups), 1.30, 1.35) == (verdict, place)


def test_both_readings_are_answered() -> None:
    claim = Claim(speedup=(1.30, 1.35), alternative=(1.43, 1.54))
    found = make_claims(claim, [total([1.46, 1.461, 1.46, 1.461, 1.46])])
    assert [(c.reading, c.verdict) for c in found] == [("first reading", "refuted"), ("second reading", "supported")]
    assert make_claims(None, [total([1.0])]) == []


def test_refused_total_says_nothing() -> None:
    refused = Effect(response="steady", kind="total", subject="", why="no complete block")
    assert judge(refused, 1.3, 1.35)[0] == "not measured"
