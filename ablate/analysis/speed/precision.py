"""Effects of a workload -> how narrow the intervals are, how many blocks would narrow them, and the fold-over rule."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ablate.analysis.results.effects import BlocksNeeded, Effect, FoldOver, Precision, Response
from ablate.analysis.results.quality import Finding
from ablate.analysis.statistics.engine import LEVEL, SEQUENTIAL_LEVEL
from ablate.analysis.statistics.inference import FEWEST_BLOCKS, TARGETS, Estimate, blocks_for_width
from ablate.core.study import Study
from ablate.core.units import grouped

LIMIT = math.log(1.02)
DECIDING = ("optimization", "leave-one-out", "add-one-in", "ladder", "total")


def make_precision(effects: Sequence[Effect], study: Study) -> list[Precision]:
    """Precision of the primary family of every response of one workload."""
    level = SEQUENTIAL_LEVEL if study.sequential else LEVEL
    families = map(primary_family, grouped((e.response, e) for e in effects).values())
    return [_precision(family, level) for family in families if family]


def primary_family(effects: Sequence[Effect]) -> list[Effect]:
    """The effects that the widest interval is looked for among: Shapley values, or what the design has instead."""
    for kind in DECIDING:
        family = [e for e in effects if e.kind == kind and e.estimate is not None]
        if any(e.estimate is not None and e.estimate.simultaneous is not None for e in family):
            return family
    return []


def widest(effects: Sequence[Effect]) -> float | None:
    """Half-width of the widest simultaneous interval of the primary family, as a ratio; None without intervals."""
    halves = [half_of(e.estimate) for e in primary_family(effects) if e.estimate and e.estimate.simultaneous]
    return math.expm1(max(halves)) if halves else None


def half_of(est: Estimate) -> float:
    """Half-width of the simultaneous interval, log time."""
    assert est.simultaneous is not None
    return min(0.5 * (math.log(est.simultaneous[1]) - math.log(max(est.simultaneous[0], 1e-300))), 700.0)


def precision_findings(rows: Sequence[Precision]) -> list[Finding]:
    """Where intervals are wider than 2 %: how many blocks are needed."""
    found = []
    for row in rows:
        needed = next((n.blocks for n in row.blocks_needed if n.half_width == TARGETS[1]), None)
        if row.half_width > TARGETS[1]:
            how_many = f"about {needed} blocks in all" if needed else "more than 400 blocks"
            found.append(
                f"{row.response}: the widest simultaneous interval is {_width(row.half_width)} with "
                f"{row.num_blocks} blocks; ±2 % takes {how_many} at this spread"
            )
    return [Finding(kind="note", text=text) for text in found]


def _width(half_width: float) -> str:
    return f"±{100 * half_width:.1f} %" if half_width < 1.0 else "wider than ±100 %"


def fold_over(effects: Sequence[Effect]) -> list[FoldOver]:
    """Judge a half fraction, response by response.

    The other half must be run when a pair exceeds 2 %, or the lack of fit of the naive cell excludes 0 or is not
    inside +-2 %.
    """
    return [_fold_over(*group) for group in grouped((e.response, e) for e in effects).items()]


def _fold_over(response: Response, effects: Sequence[Effect]) -> FoldOver:
    parts = [e for e in effects if e.kind in ("interaction", "lack-of-fit") and e.estimate is not None]
    blocks = min((len(e.estimate.blocks) for e in parts if e.estimate), default=0)
    if blocks < FEWEST_BLOCKS:
        reason = f"{blocks} blocks have every cell of the fraction; {FEWEST_BLOCKS} are needed"
        return FoldOver(response=response, verdict="too few blocks", reasons=(reason,))
    reasons = tuple(reason for e in parts if (reason := _why_more(e)))
    return FoldOver(response=response, verdict="run the other half" if reasons else "enough", reasons=reasons)


def _why_more(effect: Effect) -> str:
    est = effect.estimate
    assert est is not None
    if effect.kind == "interaction":
        too_large = abs(est.effect) > LIMIT
        return f"the pair {effect.subject} is {100 * (est.speedup - 1):+.1f} %" if too_large else ""
    assert est.interval is not None
    low, high = math.log(est.interval[0]), math.log(est.interval[1])
    shown = f"{100 * (est.interval[0] - 1):+.1f} to {100 * (est.interval[1] - 1):+.1f} %"
    if not low <= 0.0 <= high:
        return f"the naive cell does not fit: lack of fit {shown}"
    return "" if max(-low, high) <= LIMIT else f"the lack of fit is not known within ±2 %: {shown}"


def _precision(family: Sequence[Effect], level: float) -> Precision:
    measured = [e.estimate for e in family if e.estimate is not None and e.estimate.simultaneous is not None]
    worst = max(measured, key=half_of)
    spread = float(np.std(worst.per_block, ddof=1))
    return Precision(
        response=family[0].response,
        kind=family[0].kind,
        num_blocks=len(worst.blocks),
        half_width=math.expm1(half_of(worst)),
        blocks_needed=tuple(
            BlocksNeeded(half_width=t, blocks=blocks_for_width(spread, t, family=len(measured), level=level))
            for t in TARGETS
        ),
    )


def narrow_enough(workloads: Iterable[Sequence[Effect]], response: Response, target: float) -> bool:
    """Whether every workload's widest simultaneous interval is within the target; the stopping rule of a study.

    Args:
        workloads: The effects of each workload.
    """
    widths = [widest([e for e in effects if e.response == response]) for effects in workloads]
    return bool(widths) and all(width is not None and width <= target for width in widths)
