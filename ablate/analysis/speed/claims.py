"""The spec's claim and the measured total -> supported, refuted or undecided, under both readings of the claim.

A reading is supported when the whole 95 % interval lies inside the claimed range, refuted when the two do not
overlap, undecided otherwise. Fewer than five blocks decide nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from ablate.analysis.results.effects import ClaimVerdict, ClaimWord, Effect
from ablate.core.study import Claim

Reading = Literal["first reading", "second reading"]


def make_claims(claim: Claim | None, totals: Iterable[Effect]) -> list[ClaimVerdict]:
    """Judge the claim for every total (one per workload and response)."""
    found = []
    for total in totals:
        for reading, (low, high) in _readings(claim):
            word, place = judge(total, low, high)
            found.append(
                ClaimVerdict(response=total.response, reading=reading, low=low, high=high, verdict=word, place=place)
            )
    return found


def judge(effect: Effect, low: float, high: float) -> tuple[ClaimWord, str]:
    """Compare a total with a claimed range of speed-up factors; returns verdict and place."""
    est = effect.estimate
    if est is None:
        return "not measured", ""
    place = _place(*(est.interval or (est.speedup, est.speedup)), low, high)
    if est.grade != "full":
        return "pilot", place
    words: dict[str, ClaimWord] = {"inside": "supported", "overlapping": "undecided"}
    return words.get(place, "refuted"), place


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
