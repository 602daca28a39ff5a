"""The evidence about an optimization -> why its verdict is what it is, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.analysis.results.speed import EvidenceVerdict, ExpectationResult


def evidence_reason(verdict: EvidenceVerdict) -> str:
    """What the counters did, or why there are none."""
    return "; ".join(_parts(verdict))


def _parts(verdict: EvidenceVerdict) -> Iterator[str]:
    measured = [r for r in verdict.expectations if r.num_pairs]
    if verdict.verdict == "inert":
        yield verdict.cause
    elif verdict.why == "nothing declared":
        yield "the optimization declares nothing that must differ"
    elif verdict.why == "no pair of cells":
        yield "no two cells of this design differ only in it"
    elif verdict.why == "no pair of trials":
        yield f"no pair of completed trials has the counter {', '.join(r.counter for r in verdict.expectations)}"
    elif verdict.verdict == "vacuous":
        yield from map(_unchanged, measured)
    else:
        yield from (_changed(r) for r in measured if r.holds)
    if verdict.verdict == "structural":
        yield "on a CPU no device can stall, so no speed is claimed"
    if verdict.jointly:
        yield "naive against full, where the other optimizations are switched too"


def _changed(result: ExpectationResult) -> str:
    return (
        f"{result.counter} {_number(result.off_mean)} off, {_number(result.on_mean)} on "
        f"({result.num_as_expected} of {result.num_pairs} pairs as declared)"
    )


def _unchanged(result: ExpectationResult) -> str:
    if not result.num_as_expected and not result.num_opposite:
        return f"{result.counter} is {_number(result.off_mean)} off and on in all {result.num_pairs} pairs"
    return _changed(result)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"
