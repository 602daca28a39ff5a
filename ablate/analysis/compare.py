"""Results of two studies -> how much each effect differs between two stacks or machines, with intervals.

The blocks of two studies are independent, so an interval of the difference is Welch's: `se^2 = s_A^2/B_A + s_B^2/B_B`
with Satterthwaite's degrees of freedom, Bonferroni over the effects of a kind. Positive = a larger gain in the second.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate.analysis.results.effects import RESPONSES, Effect, Response
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import Results
from ablate.analysis.statistics.engine import LEVEL, SEQUENTIAL_LEVEL, quantile
from ablate.analysis.statistics.inference import Grade, as_speedups, grade
from ablate.analysis.words.speed import why_not_reported
from ablate.core.contrast import ContrastKind
from ablate.core.serialize import to_dict
from ablate.core.study import Study

KINDS: tuple[ContrastKind, ...] = (
    "total", "compile", "optimization", "layer", "leave-one-out", "add-one-in", "ladder", "eager-optimization",
)  # fmt: skip
SETTINGS = ("timing", "training", "loader", "compile_step", "compile_backend", "compile_cache", "num_threads")
MOST_SHOWN = 120


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One effect in both studies, as speed-up factors.

    Attributes:
        first, second: Speed-up in each study; None where it is not measured, see `why`.
        ratio: Second over first.
        interval, simultaneous: 95 % intervals of the ratio, alone and together with the others of its kind.
        grade: That of the study with fewer blocks.
        differs: Five blocks or more in both, and the simultaneous interval excludes 1.
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
    sequential = first.study.sequential or second.study.sequential
    level = SEQUENTIAL_LEVEL if sequential else LEVEL
    names = [w.name for w in first.workloads if w.name in {other.name for other in second.workloads}]
    return Comparison(
        first=first.study.name,
        second=second.study.name,
        environment=_environment(first, second),
        warnings=tuple(_warnings(first.study, second.study)),
        differences=tuple(
            row
            for name in names
            for response in RESPONSES
            for kind in KINDS
            for row in _family(name, response, kind, (first.workload(name).speed, second.workload(name).speed), level)
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


def _family(
    workload: str, response: Response, kind: ContrastKind, speeds: tuple[Speed, Speed], level: float
) -> list[Difference]:
    """The differences of one kind, whose simultaneous intervals hold together."""
    subjects = dict.fromkeys(effect.subject for speed in speeds for effect in speed.of_kind(kind, response))
    pairs = {s: (speeds[0].effect(response, kind, s), speeds[1].effect(response, kind, s)) for s in subjects}
    size = sum(all(effect is not None and effect.estimate for effect in pair) for pair in pairs.values())
    return [
        _difference(Difference(workload=workload, response=response, kind=kind, subject=subject), one, two, size, level)
        for subject, (one, two) in pairs.items()
    ]


def _difference(blank: Difference, one: Effect | None, two: Effect | None, family: int, level: float) -> Difference:
    reasons = [
        f"{which}: {reason}" for which, effect in (("first", one), ("second", two)) if (reason := _why_absent(effect))
    ]
    first, second = (effect.estimate if effect else None for effect in (one, two))
    row = replace(
        blank, first=first.speedup if first else None, second=second.speedup if second else None, why="; ".join(reasons)
    )
    if first is None or second is None:
        return row
    values = first.per_block, second.per_block
    alone = difference_interval(*values, level=level)
    together = difference_interval(*values, family=family, level=level)
    simultaneous = as_speedups(*together) if together else None
    grade_of_both = grade(min(map(len, values)))
    return replace(
        row,
        ratio=math.exp(second.effect - first.effect),
        interval=as_speedups(*alone) if alone else None,
        simultaneous=simultaneous,
        grade=grade_of_both,
        differs=grade_of_both == "full" and simultaneous is not None and not simultaneous[0] <= 1.0 <= simultaneous[1],
    )


def _why_absent(effect: Effect | None) -> str:
    if effect is None:
        return "not part of that study"
    if effect.estimate is not None:
        return ""
    reason = f"0 by construction ({effect.cause})" if effect.inert else why_not_reported(effect)
    return reason if len(reason) <= MOST_SHOWN else reason[: MOST_SHOWN - 1] + "…"


def _environment(first: Results, second: Results) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys([*first.environment, *second.environment])
    pairs = {n: (str(first.environment.get(n, "-")), str(second.environment.get(n, "-"))) for n in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _warnings(first: Study, second: Study) -> Iterator[str]:
    for name in SETTINGS:
        one, two = to_dict(getattr(first, name)), to_dict(getattr(second, name))
        if one != two:
            yield f"{name} differs: {_brief(one, two)}"
    options = {choice.name: to_dict(choice.options) for choice in second.workloads}
    for choice in first.workloads:
        one, two = to_dict(choice.options), options.get(choice.name)
        if two is not None and one != two:
            yield f"options of {choice.name} differ: {_brief(one, two)}"
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
