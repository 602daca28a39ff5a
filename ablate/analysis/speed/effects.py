"""Contrasts and log times -> effects with intervals, and the check that they add up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ablate.analysis.results.effects import Effect, Identity
from ablate.analysis.results.speed import EvidenceVerdict
from ablate.analysis.statistics.engine import LEVEL, SEQUENTIAL_LEVEL, contrast_values, weight_matrix
from ablate.analysis.statistics.inference import estimate, holm
from ablate.analysis.trials.comparable import Layout, WorkloadTrials
from ablate.analysis.trials.responses import LogTimes
from ablate.core.contrast import Contrast, ContrastKind
from ablate.core.study import Study
from ablate.core.units import grouped, name_some
from ablate.design.contrasts import layers_of

FAMILIES: tuple[ContrastKind, ...] = (
    "optimization",
    "layer",
    "interaction",
    "moebius",
    "leave-one-out",
    "add-one-in",
    "ladder",
    "level",
    "eager-optimization",
)
OVER: tuple[Literal["optimization", "layer"], ...] = ("optimization", "layer")
CLAIM_LEVEL = 0.05


def block_values(contrast: Contrast, times: LogTimes) -> dict[int, float]:
    """`sum_c w_c * y[c, b]` in every block that has all the cells it needs."""
    keys = list(contrast.weights)
    blocks = [block for block, values in times.values.items() if all(key in values for key in keys)]
    if not blocks:
        return {}
    log_time_CB = np.array([[times.values[block][key] for block in blocks] for key in keys])
    values_B = contrast_values(weight_matrix([contrast.weights], keys), log_time_CB)[0]
    return {block: float(value) for block, value in zip(blocks, values_B, strict=True)}


def make_effect(
    contrast: Contrast, trials: WorkloadTrials, times: LogTimes, *, family: int = 1, level: float = LEVEL
) -> Effect:
    """Evaluate one contrast for one response.

    Args:
        contrast: Weights on effective keys; empty = inert.
        trials: Names of missing trials come from here.
        times: The response.
        family: Size of the family that the simultaneous interval covers.
        level: Coverage that the intervals are computed for.
    """
    bare = Effect(
        response=times.response,
        kind=contrast.kind,
        subject=contrast.subject,
        num_weights=len(contrast.weights),
        assumes=contrast.assumes,
    )
    if not contrast.weights:
        return replace(bare, why="inert", cause=contrast.why_inert or "inert")
    if trials.not_comparable:
        return replace(bare, why="not comparable", cause=trials.not_comparable)
    values = block_values(contrast, times)
    dropped = tuple(_why_dropped(contrast, trials, times, block) for block in times.blocks if block not in values)
    if not values:
        return replace(bare, why="no complete block", dropped=dropped)
    return replace(
        bare, estimate=estimate(list(values.values()), list(values), family=family, level=level), dropped=dropped
    )


def make_effects(
    layout: Layout, trials: WorkloadTrials, times: LogTimes, evidence: Mapping[str, EvidenceVerdict]
) -> list[Effect]:
    """Evaluate every contrast of a design for one workload and response.

    Args:
        evidence: Verdict per optimization: what does not bite is not claimed.
    """
    study, contrasts = layout.study, layout.contrasts
    sizes = {kind: sum(1 for c in contrasts if c.kind == kind and c.weights) for kind in FAMILIES}
    level = SEQUENTIAL_LEVEL if study.sequential else LEVEL
    effects = [make_effect(c, trials, times, family=sizes.get(c.kind, 1), level=level) for c in contrasts]
    effects += [
        Effect(
            response=times.response,
            kind=refusal.kind,
            subject=refusal.subject,
            why="no such cell",
            lacks=refusal.missing,
            num_more_lacking=refusal.num_more,
        )
        for refusal in layout.refusals
    ]
    total = next((e for e in effects if e.kind == "total"), None)
    biting = _biting(study, evidence)
    primary = _primary_kinds(effects)
    return [_with_claim(_with_share(e, total), biting, primary) for e in _adjusted(effects)]


def make_identities(effects: Iterable[Effect]) -> list[Identity]:
    """Check per block that compile term and attribution add up to the total, for optimizations and for layers."""
    groups = grouped((effect.response, effect) for effect in effects).values()
    return [found for group in groups for over in OVER if (found := _identity(group, over)) is not None]


def common_blocks(effects: Iterable[Effect]) -> tuple[int, ...]:
    """Blocks in which every given effect that has an estimate was measured."""
    sets = [set(e.estimate.blocks) for e in effects if e.estimate is not None]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def _identity(group: list[Effect], over: Literal["optimization", "layer"]) -> Identity | None:
    total = next((e for e in group if e.kind == "total" and e.estimate), None)
    compiled = next((e for e in group if e.kind == "compile" and (e.estimate or e.inert)), None)
    parts = [e for e in group if e.kind == over]
    if total is None or compiled is None or not parts or any(e.refused for e in parts):
        return None
    lack = [e for e in group if e.kind == "lack-of-fit"]
    if any(e.refused for e in lack):
        return None
    measured = [e for e in (compiled, *parts, *lack) if e.estimate]
    blocks = common_blocks([total, *measured])
    if not blocks:
        return None
    residual = max(abs(_at(total, block) - sum(_at(e, block) for e in measured)) for block in blocks)
    return Identity(response=total.response, over=over, num_blocks=len(blocks), residual=residual)


def _at(effect: Effect, block: int) -> float:
    assert effect.estimate is not None
    return effect.estimate.per_block[effect.estimate.blocks.index(block)]


def _why_dropped(contrast: Contrast, trials: WorkloadTrials, times: LogTimes, block: int) -> str:
    missing = [key for key in contrast.weights if key not in times.values[block]]
    reasons = [times.absent.get((block, key)) or trials.why_absent(block, key) for key in missing]
    return name_some(reasons, 3, "; ")


def _adjusted(effects: list[Effect]) -> list[Effect]:
    """Replace raw p-values by Holm-adjusted ones inside each family."""
    result = list(effects)
    tested = ((e.kind, (i, e.estimate, e.estimate.p_holm)) for i, e in enumerate(effects) if e.estimate)
    families = grouped((kind, (i, est, p)) for kind, (i, est, p) in tested if kind in FAMILIES and p is not None)
    for family in families.values():
        for (index, est, _), p_holm in zip(family, holm([p for _, _, p in family]), strict=True):
            result[index] = replace(effects[index], estimate=replace(est, p_holm=p_holm))
    return result


def _with_share(effect: Effect, total: Effect | None) -> Effect:
    whole = total.estimate if total else None
    if effect.kind not in ("compile", "optimization", "layer") or effect.estimate is None or whole is None:
        return effect
    if whole.grade != "full" or not whole.excludes_one or whole.effect == 0:
        return effect
    return replace(effect, share=effect.estimate.effect / whole.effect)


def _with_claim(effect: Effect, biting: set[tuple[str, str]], primary: tuple[ContrastKind, ...]) -> Effect:
    est = effect.estimate
    if effect.kind not in primary or est is None or est.grade != "full":
        return effect
    if est.p_holm is None or est.p_holm >= CLAIM_LEVEL:
        return effect
    kind = "layer" if effect.kind == "layer" else "optimization"
    bites = effect.kind in ("total", "compile") or (kind, effect.subject) in biting
    return replace(effect, claimed=bites)


def _primary_kinds(effects: Sequence[Effect]) -> tuple[ContrastKind, ...]:
    """The kinds that may be claimed: one family per question, the Shapley values where the design has them."""
    families: tuple[ContrastKind, ...] = ("optimization", "leave-one-out", "add-one-in", "ladder")
    measured = [kind for kind in families if any(e.kind == kind and e.estimate for e in effects)]
    return ("total", "compile", "layer", *measured[:1])


def _biting(study: Study, evidence: Mapping[str, EvidenceVerdict]) -> set[tuple[str, str]]:
    names = {name for name, verdict in evidence.items() if verdict.verdict == "bites"}
    layers = {layer for layer, members in layers_of(study.varying).items() if members & names}
    return {("optimization", name) for name in names} | {("layer", layer) for layer in layers}
