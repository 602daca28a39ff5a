"""The spec's claim and the measured total -> supported, refuted or undecided, under both readings of the claim.

A reading is supported when the whole 95 % interval lies inside the claimed range, refuted when the two do not
overlap, undecided otherwise. Fewer than five blocks decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from ablate.analysis.results.effects import ClaimVerdict, ClaimWord, Effect
from ablate.analysis.words.speed import format_factor, format_interval
from ablate.core.study import Claim

Reading = Literal["first reading", "second reading"]


def make_claims(claim: Claim | None, totals: Iterable[Effect]) -> list[ClaimVerdict]:
    """Judge the claim for every total (one per workload and response)."""
    return [_verdict(total, reading, low, high) for total in totals for reading, (low, high) in _readings(claim)]


def judge(effect: Effect, low: float, high: float) -> tuple[ClaimWord, str, str]:
    """Compare a total with a claimed range of speed-up factors; returns verdict, place and a sentence."""
    claimed = format_interval((low, high))
    est = effect.estimate
    if est is None:
        return "not measured", "", f"not measured, so nothing is said about the claimed {claimed}"
    measured = format_factor(est.speedup)
    place = _place(*(est.interval or (est.speedup, est.speedup)), low, high)
    if est.interval is None:
        return "pilot", place, f"pilot: one block, {measured}, {place} the claimed {claimed}; no claim"
    measured += f" (95 % interval {format_interval(est.interval)})"
    if est.grade == "pilot":
        text = f"pilot: {len(est.blocks)} blocks, {measured}, {place} the claimed {claimed}; no claim"
        return "pilot", place, text
    words: dict[str, ClaimWord] = {"inside": "supported", "overlapping": "undecided"}
    word = words.get(place, "refuted")
    return word, place, f"{word}: {measured} is {place} the claimed {claimed}"


def _verdict(total: Effect, reading: Reading, low: float, high: float) -> ClaimVerdict:
    verdict, place, sentence = judge(total, low, high)
    return ClaimVerdict(
        response=total.response, reading=reading, low=low, high=high, verdict=verdict, place=place, sentence=sentence
    )


def _place(low: float, high: float, claimed_low: float, claimed_high: float) -> str:
    if high < claimed_low:
        return "below"
    if low > claimed_high:
        return "above"
    return "inside" if claimed_low <= low and high <= claimed_high else "overlapping"


def _readings(claim: Claim | None) -> Iterator[tuple[Reading, tuple[float, float]]]:
    if claim is not None:
        yield "first reading", claim.speedup
        if claim.alternative is not None:
            yield "second reading", claim.alternative
