"""Results of two studies -> how much each effect differs between two stacks or machines, with intervals.

The blocks of two studies are independent, so an interval of the difference is Welch's: `se^2 = s_A^2/B_A + s_B^2/B_B`
with Satterthwaite's degrees of freedom, Bonferroni over the effects of a kind. Positive = a larger gain in the second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate.analysis.results.study import RESPONSES, Effect, Grade, Response, Results
from ablate.analysis.statistics.engine import LEVEL, SEQUENTIAL_LEVEL, quantile
from ablate.analysis.statistics.inference import as_speedups, grade
from ablate.analysis.words.speed import why_not_reported
from ablate.core.contrast import ContrastKind
from ablate.core.serialize import to_dict
from ablate.core.study import Study

KINDS: tuple[ContrastKind, ...] = (
    "total", "compile", "optimization", "layer", "leave-one-out", "add-one-in", "ladder", "eager-optimization",
)  # fmt: skip
SETTINGS = ("data", "timing", "training", "loader", "compile_step", "compile_backend", "compile_cache", "num_threads")
MOST_SHOWN = 120


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One effect in both studies, as speed-up factors.

    Attributes:
        first, second: Speed-up in each study; None where it is not measured, see `why`.
        ratio: Second over first.
        interval, simultaneous: 95 % intervals of the ratio, alone and together with the others of its kind.
        grade: That of the study with fewer blocks.
        differs: Five blocks or more in both, and the simultaneous interval leaves out 1.
        why: Why there is no ratio, naming the study.
    """

    workload: str
    response: Response
    kind: ContrastKind
    subject: str
    first: float | None = None
    second: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    simultaneous: tuple[float, float] | None = None
    grade: Grade = "single"
    differs: bool = False
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two studies side by side.

    Attributes:
        environment: What differs between the machines and stacks, with both values: what is compared.
        warnings: What differs beside them, so that a difference of effects may come from there.
    """

    first: str
    second: str
    environment: Mapping[str, tuple[str, str]]
    warnings: tuple[str, ...]
    differences: tuple[Difference, ...]


def compare(first: Results, second: Results) -> Comparison:
    """Compare the effects that two studies share.

    Args:
        first, second: Results of the studies; their optimizations are matched by name.
    """
    differences = list(_differences(first, second))
    sizes: dict[tuple[str, str, str], int] = {}
    for row in differences:
        if row.ratio is not None:
            place = row.workload, row.response, row.kind
            sizes[place] = sizes.get(place, 0) + 1
    return Comparison(
        first=first.study.name,
        second=second.study.name,
        environment=_environment(first, second),
        warnings=tuple(_warnings(first.study, second.study)),
        differences=tuple(
            _with_interval(row, first, second, sizes.get((row.workload, row.response, row.kind), 1))
            for row in differences
        ),
    )


def difference_interval(
    first_B: Sequence[float], second_B: Sequence[float], *, family: int = 1, level: float = LEVEL
) -> tuple[float, float] | None:
    """Mean and half-width of second minus first, log time; None with fewer than two blocks in either."""
    if min(len(first_B), len(second_B)) < 2:
        return None
    parts = [float(np.var(values, ddof=1)) / len(values) for values in (first_B, second_B)]
    squared = sum(parts)
    mean = float(np.mean(second_B) - np.mean(first_B))
    if squared == 0.0:
        return mean, 0.0
    degrees = squared**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (first_B, second_B), strict=True)
    )
    return mean, quantile(degrees, level=level, family=family) * math.sqrt(squared)


def _differences(first: Results, second: Results) -> Iterator[Difference]:
    workloads = [w.name for w in first.study.workloads if w.name in {v.name for v in second.study.workloads}]
    for workload in workloads:
        for response in RESPONSES:
            for kind in KINDS:
                for subject in dict.fromkeys(
                    e.subject
                    for r in (first, second)
                    for e in r.effects
                    if (e.workload, e.response, e.kind) == (workload, response, kind)
                ):
                    yield _difference(
                        Difference(workload=workload, response=response, kind=kind, subject=subject),
                        first.effect(workload, response, kind, subject),
                        second.effect(workload, response, kind, subject),
                    )


def _difference(blank: Difference, one: Effect | None, two: Effect | None) -> Difference:
    reasons = [
        f"{which}: {reason}" for which, effect in (("first", one), ("second", two)) if (reason := _why_absent(effect))
    ]
    return replace(
        blank,
        first=one.estimate.speedup if one and one.estimate else None,
        second=two.estimate.speedup if two and two.estimate else None,
        ratio=math.exp(two.estimate.effect - one.estimate.effect)
        if one and two and one.estimate and two.estimate
        else None,
        why="; ".join(reasons),
    )


def _why_absent(effect: Effect | None) -> str:
    if effect is None:
        return "not part of that study"
    if effect.estimate is not None:
        return ""
    reason = f"0 by construction ({effect.cause})" if effect.inert else why_not_reported(effect)
    return reason if len(reason) <= MOST_SHOWN else reason[: MOST_SHOWN - 1] + "…"


def _with_interval(row: Difference, first: Results, second: Results, family: int) -> Difference:
    one = first.effect(row.workload, row.response, row.kind, row.subject)
    two = second.effect(row.workload, row.response, row.kind, row.subject)
    if one is None or two is None or one.estimate is None or two.estimate is None:
        return row
    values = one.estimate.per_block, two.estimate.per_block
    sequential = first.study.sequential or second.study.sequential
    coverage = SEQUENTIAL_LEVEL if sequential else LEVEL
    alone = difference_interval(*values, level=coverage)
    together = difference_interval(*values, family=family, level=coverage)
    level = grade(min(map(len, values)))
    simultaneous = as_speedups(*together) if together else None
    return replace(
        row,
        interval=as_speedups(*alone) if alone else None,
        simultaneous=simultaneous,
        grade=level,
        differs=level == "full" and simultaneous is not None and not simultaneous[0] <= 1.0 <= simultaneous[1],
    )


def _environment(first: Results, second: Results) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys([*first.environment, *second.environment])
    pairs = {n: (str(first.environment.get(n, "-")), str(second.environment.get(n, "-"))) for n in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _warnings(first: Study, second: Study) -> Iterator[str]:
    for name in SETTINGS:
        one, two = to_dict(getattr(first, name)), to_dict(getattr(second, name))
        if one != two:
            yield f"{name} differs: {_brief(one, two)}"
    seconds = {f.name: f for f in second.factors}
    for factor in first.factors:
        other = seconds.get(factor.name)
        if other is not None and (factor.off, factor.on) != (other.off, other.on):
            yield (
                f"{factor.name} is switched from {factor.off} to {factor.on} in the first study, from {other.off} to "
                f"{other.on} in the second"
            )
    varying = {f.name for f in first.varying} ^ {f.name for f in second.varying}
    if varying:
        names = ", ".join(sorted(varying))
        yield f"only one of the studies varies {names}, so totals and Shapley values differ in kind"


def _brief(one: object, two: object) -> str:
    if isinstance(one, dict) and isinstance(two, dict):
        return ", ".join(f"{k} {one.get(k)} against {two.get(k)}" for k in one if one.get(k) != two.get(k))
    return f"{one} against {two}"
