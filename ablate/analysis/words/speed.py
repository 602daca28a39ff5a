"""Numbers of a workload -> the answer in words, for page one of the report, the terminal and MLflow."""

from collections.abc import Iterator, Sequence

from ablate.analysis.results.effects import CACHE_OF, RESPONSES, Effect, Response
from ablate.analysis.results.speed import BreakEven, EvidenceVerdict, ExpectationResult, Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.statistics.inference import Estimate
from ablate.analysis.words.training import training_sentence
from ablate.core.contrast import ContrastKind
from ablate.core.evidence import counter_of
from ablate.core.units import format_duration, grouped

SWITCH_KINDS: tuple[ContrastKind, ...] = ("optimization", "leave-one-out", "ladder", "add-one-in")
RESPONSE_NAMES: dict[Response, str] = {
    "steady": "steady epoch",
    "horizon_cold": "horizon, cold compile caches",
    "horizon_warm": "horizon, warm compile caches",
}


def make_headline(result: WorkloadResults) -> tuple[str, ...]:
    """Say what was found; nothing is claimed that blocks or evidence do not carry."""
    return tuple(_sentences(result))


def saved_compilations(speed: Speed) -> list[str]:
    """One sentence per optimization that saves compilations: how many, and where it shows in the times."""
    return [
        f"{name} saved {_amount(result)} per trial on average ({result.off_mean:.3g} without it, "
        f"{result.on_mean:.3g} with it){_where_it_shows(speed, name)}"
        for name, result in _savings(speed)
    ]


def compared_with_eager(estimate: Estimate) -> str:
    """`1.04x faster than eager (95 % interval ...)`, `1.10x slower than eager (...)`, `as fast as eager (...)`."""
    factor = estimate.speedup if estimate.speedup >= 1 else 1 / estimate.speedup
    word = "faster" if estimate.speedup >= 1 else "slower"
    same = format_factor(factor) == "1.00x"
    return ("as fast as eager" if same else f"{format_factor(factor)} {word} than eager") + f" ({certainty(estimate)})"


def why_not_reported(effect: Effect) -> str:
    """Why an effect has no estimate."""
    if effect.why == "no such cell":
        more = [f"and {effect.num_more_lacking} more"] if effect.num_more_lacking else []
        return "this design lacks " + ", ".join([*effect.lacks, *more])
    if effect.why == "no complete block":
        return "no block has every trial it needs: " + "; ".join(effect.dropped)
    return f"not comparable: {effect.cause}" if effect.why == "not comparable" else effect.cause


def certainty(estimate: Estimate) -> str:
    """How sure a number is, in words."""
    speedup = f"speed-up {format_factor(estimate.speedup)}"
    if estimate.interval is None:
        return f"{speedup}; one block, so no interval"
    interval = f"{speedup}, 95 % interval {format_interval(estimate.interval)}"
    if estimate.grade == "pilot":
        return f"{interval}; pilot with {len(estimate.blocks)} blocks, no claim"
    return interval if estimate.excludes_one else f"{interval}, which includes no difference"


def _sentences(result: WorkloadResults) -> Iterator[str]:
    speed = result.speed
    yield from _totals(speed)
    training = training_sentence(result.training)
    if training:
        yield training
    if speed.break_even:
        yield "Break-even: " + "; ".join(map(_break_even, speed.break_even)) + "."
    saved = _savings(speed)
    if saved:
        parts = [f"{name} saved {_amount(result)}" for name, result in saved]
        how = " (naive against full, all switched together)" if any(v.jointly for v in speed.evidence) else ""
        yield "; ".join(parts) + f"{how}. A compilation is paid at the start, so this shows in the horizon only."
    if speed.evidence:
        yield _evidence(speed.evidence)
    missing = [t for t in result.quality.trials if t.missing]
    num_not_run = sum(t.not_run for t in missing)
    if num_not_run:
        yield f"Planned trials that have not run yet: {num_not_run}."
    failed = [t for t in missing if not t.not_run]
    if failed:
        yield f"Trials that did not complete: {len(failed)}; each is listed with its reason."


def _totals(speed: Speed) -> Iterator[str]:
    horizons = []
    found = [speed.effect(response, "total") for response in RESPONSES]
    refused = {why_not_reported(total) for total in found if total is not None and total.estimate is None}
    if len(refused) == 1 and all(total is None or total.estimate is None for total in found):
        yield f"Full against eager: not reported ({refused.pop()})."
        return
    for response in RESPONSES:
        total = speed.effect(response, "total")
        if total is None:
            continue
        if total.estimate is None:
            yield f"Full against eager, {RESPONSE_NAMES[response]}: not reported ({why_not_reported(total)})."
        elif response == "steady":
            yield f"Compiled with every optimization on, a steady epoch was {compared_with_eager(total.estimate)}."
        else:
            horizons.append(f"with {CACHE_OF[response]} compile caches {compared_with_eager(total.estimate)}")
    if horizons:
        yield f"Compilation included, {speed.horizon_epochs} epochs were " + ", ".join(horizons) + "."


def _break_even(item: BreakEven) -> str:
    start = f"with {item.cache} compile caches"
    if item.verdict == "never":
        return f"{start} never, since a steady epoch is not shorter than in eager"
    if item.verdict == "at once":
        return f"{start} at once, since the start costs no more than in eager"
    return (
        f"{start} after {item.epochs:,.0f} epochs "
        f"({format_duration(item.startup_difference_s)} more to start, "
        f"{format_duration(item.saving_per_epoch_s)} saved per epoch)"
    )


def _evidence(verdicts: Sequence[EvidenceVerdict]) -> str:
    groups = grouped((verdict.verdict, verdict.optimization) for verdict in verdicts)
    return "Did it bite? " + "; ".join(f"{word}: {', '.join(names)}" for word, names in groups.items()) + "."


def _savings(speed: Speed) -> list[tuple[str, ExpectationResult]]:
    """Optimizations that bite by saving compilations, with the counter that fell."""
    return [
        (verdict.optimization, result)
        for verdict in speed.evidence
        if verdict.verdict == "bites"
        for result in verdict.expectations
        if counter_of(result.counter).at_start and (result.off_mean or 0.0) > (result.on_mean or 0.0)
    ]


def _amount(result: ExpectationResult) -> str:
    """`1 compilation of the optimizer step`."""
    saved = (result.off_mean or 0.0) - (result.on_mean or 0.0)
    counter = counter_of(result.counter)
    return f"{saved:.3g} {counter.unit}{'' if abs(saved - 1) < 1e-9 else 's'} {counter.of}"


def _where_it_shows(speed: Speed, optimization: str) -> str:
    for kind in SWITCH_KINDS:
        effects = {r: speed.effect(r, kind, optimization) for r in RESPONSES}
        parts = [
            f"{format_factor(effect.estimate.speedup)} ({RESPONSE_NAMES[response]})"
            for response, effect in effects.items()
            if effect and effect.estimate
        ]
        if parts:
            label = "Shapley value" if kind == "optimization" else kind
            return f"; measured speed-up ({label}): " + ", ".join(parts)
    return ""


def format_factor(factor: float) -> str:
    """Write a speed-up factor: `1.04x`, `0.00731x`, `250x`."""
    return f"{factor:.2f}x" if 0.1 <= factor < 100 else f"{factor:.3g}x"


def format_interval(interval: tuple[float, float]) -> str:
    """Write an interval of speed-up factors: `1.02x to 1.06x`."""
    return f"{format_factor(interval[0])} to {format_factor(interval[1])}"


def evidence_reason(verdict: EvidenceVerdict) -> str:
    """What the counters did, or why there are none."""
    return "; ".join(_reasons(verdict))


def _reasons(verdict: EvidenceVerdict) -> Iterator[str]:
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
        yield from (_counted(r) for r in measured if r.holds)
    if verdict.verdict == "structural":
        yield "on a CPU no device can stall, so no speed is claimed"
    if verdict.jointly:
        yield "naive against full, where the other optimizations are switched too"


def _counted(result: ExpectationResult) -> str:
    return (
        f"{result.counter} {_counter(result.off_mean)} off, {_counter(result.on_mean)} on "
        f"({result.num_as_expected} of {result.num_pairs} pairs as declared)"
    )


def _unchanged(result: ExpectationResult) -> str:
    if not result.num_as_expected and not result.num_opposite:
        return f"{result.counter} is {_counter(result.off_mean)} off and on in all {result.num_pairs} pairs"
    return _counted(result)


def _counter(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"
