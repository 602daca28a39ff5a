"""`ablate plan --target`: a study and a wanted precision -> blocks, detectable effects, hours and cost per design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from ablate.cli.loading import LoadedStudy
from ablate.cli.terminal import print_json, print_line, print_table
from ablate.core.errors import UserError
from ablate.core.study import DesignKind
from ablate.core.units import format_duration

if TYPE_CHECKING:
    from ablate.analysis.speed.target import Need, Noise


@dataclass(frozen=True, kw_only=True)
class DesignCost:
    """What one kind of design needs to reach the target; `blocks` None = more than 400, or no effect at all."""

    design: str
    answers: str
    trials_per_block: int
    blocks: int | None
    trials: int | None
    seconds: float | None
    cost: float | None


ANSWERS = {
    "factorial": "Shapley values, layers, pairs, every order",
    "fraction": "the same if no three optimizations interact",
    "leave-one-out": "what is lost without each",
    "add-one-in": "what each gains alone",
    "ladder": "one order only",
}


def parse_ratio(text: str, option: str) -> float:
    """Read `2%` or `0.02`.

    Raises:
        UserError: not a ratio between 0 and 1.
    """
    plain = text.strip()
    try:
        value = float(plain.removesuffix("%")) / (100.0 if plain.endswith("%") else 1.0)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise UserError(f"{option} wants a ratio such as 2% or 0.02, not {text!r}")
    return value


def print_target(
    loaded: LoadedStudy, target: float, noise: float | None, price_per_hour: float | None, *, as_json: bool
) -> None:
    """Work out and print what the target takes."""
    from ablate.analysis.speed.target import Noise, assumed_noise, make_needs, pilot_noise

    study, design = loaded.study, loaded.design
    stated = None if noise is None else Noise(trial_sd=noise, source=f"stated: {100 * noise:g} % per trial")
    known = stated or pilot_noise(study, design, _trials(loaded)) or assumed_noise(study)
    needs = make_needs(study, design, known, target, study.blocks)
    costs = list(_costs(loaded, known, target, price_per_hour))
    advice = _advice(loaded, costs)
    if as_json:
        print_json({"target": target, "noise": known, "needs": needs, "designs": costs, "advice": advice})
        return
    print_line(f"noise {known.source}")
    print_line(
        f"per number, with the {study.blocks} blocks of the spec, and blocks for power .9 (together: simultaneous):"
    )
    print_table(
        ("number", "sum w²", "± alone", "± together", "finds alone", "finds together", "blocks 1 %", "2 %", "3 %",
         "1 % together", "2 %", "3 %", f"blocks for ±{100 * target:g} %"),
        map(_need_row, needs),
    )  # fmt: skip
    print_line(
        f"designs, until the widest simultaneous interval is within ±{100 * target:g} % (parity trials come on top):"
    )
    print_table(("design", "answers", "trials a block", "blocks", "trials", "time", "cost"), map(_cost_row, costs))
    print_line(advice)


def _trials(loaded: LoadedStudy) -> list:  # type: ignore[type-arg]
    from ablate.analysis.trials.comparable import read_trials

    return read_trials(loaded.paths.records)


def _costs(loaded: LoadedStudy, noise: Noise, target: float, price_per_hour: float | None) -> Iterator[DesignCost]:
    """One row per kind of design that the study's optimizations allow."""
    from ablate.analysis.speed.target import blocks_of_design
    from ablate.design.cells import make_design
    from ablate.run.plan.estimate import estimate
    from ablate.run.plan.plan import study_records

    records = list(study_records(loaded.study, loaded.paths).values())
    for kind in get_args(DesignKind):
        if kind == "cells":
            continue
        try:
            study = replace(loaded.study, design=kind, cells=(), blocks=1)
            design = make_design(study)
        except UserError:
            continue
        blocks = blocks_of_design(study, design, noise, target)
        seconds = None
        if blocks is not None:
            blocks = max(blocks, 5)
            planned = make_design(replace(study, blocks=blocks)).trials
            seconds = estimate(study, planned, records)[0]
        num_keys = len(design.effective_keys)
        yield DesignCost(
            design=kind,
            answers=ANSWERS[kind],
            trials_per_block=num_keys,
            blocks=blocks,
            trials=None if blocks is None else blocks * num_keys * len(study.workloads),
            seconds=seconds,
            cost=None if seconds is None or price_per_hour is None else seconds / 3600 * price_per_hour,
        )


def _advice(loaded: LoadedStudy, costs: list[DesignCost]) -> str:
    """When a fraction is enough; from the pairs measured so far where there are any."""
    by_kind = {cost.design: cost for cost in costs}
    if "fraction" not in by_kind:
        return "a fraction saves nothing here: fewer than 4 optimizations act in compiled cells, the factorial is small"
    half, whole = by_kind["fraction"], by_kind["factorial"]
    saved = f"{half.trials_per_block} instead of {whole.trials_per_block} trials a block"
    rule = (
        "run the other half (write design: factorial) if a pair exceeds 2 %, or the naive cell's lack of fit excludes "
        "0 or is not inside ±2 %"
    )
    large = _large_pairs(loaded)
    if large is None:
        return f"a fraction ({saved}) is enough when no three optimizations interact; its report checks that: {rule}"
    if large:
        return f"a fraction ({saved}) is not enough here: measured pairs beyond 2 %: {', '.join(large)}"
    return f"a fraction ({saved}) is enough by the pairs measured so far, none exceeds 2 %; {rule}"


def _large_pairs(loaded: LoadedStudy) -> list[str] | None:
    """Pairs beyond 2 % in the steady time by the records so far; None when no pair was measured."""
    from ablate.analysis.analyze import analyze_trials

    trials = _trials(loaded)
    if not trials:
        return None
    pairs = [
        (result.name, effect.subject, effect.estimate.speedup)
        for result in analyze_trials(loaded.study, loaded.design, trials).workloads
        for effect in result.speed.of_kind("interaction")
        if effect.estimate is not None
    ]
    if not pairs:
        return None
    return [f"{name} {pair} {100 * (x - 1):+.1f} %" for name, pair, x in pairs if abs(x - 1.0) > 0.02]


def _need_row(need: Need) -> tuple[object, ...]:
    name = need.kind if len(need.subjects) == 1 else f"{need.kind} ({len(need.subjects)})"
    ratios = (need.half_width, need.half_width_simultaneous, need.detectable, need.detectable_simultaneous)
    return (
        name, f"{need.variance:.3f}", *(f"{100 * ratio:.2f} %" for ratio in ratios),
        *map(_count, need.blocks.values()), *map(_count, need.blocks_simultaneous.values()),
        _count(need.blocks_for_target),
    )  # fmt: skip


def _cost_row(cost: DesignCost) -> tuple[object, ...]:
    time = None if cost.seconds is None else format_duration(cost.seconds)
    price = None if cost.cost is None else f"{cost.cost:,.2f}"
    return cost.design, cost.answers, cost.trials_per_block, _count(cost.blocks), cost.trials, time, price


def _count(blocks: int | None) -> str:
    return "> 400" if blocks is None else str(blocks)
