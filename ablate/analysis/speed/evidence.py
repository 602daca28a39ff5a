"""Evidence of trials -> for each optimization, whether switching it changed what it declared; every recompilation."""

from collections.abc import Iterable, Iterator, Mapping

from ablate.analysis.results.speed import (
    EvidenceVerdict,
    EvidenceWord,
    ExpectationResult,
    Recompilation,
    WhyNotMeasured,
)
from ablate.analysis.trials.comparable import Layout, Trial, WorkloadTrials
from ablate.core.cell import Design
from ablate.core.evidence import CompileEvent, LimitHit, counter_of
from ablate.core.optimization import Expectation
from ablate.core.record import TrialRecord
from ablate.core.study import Factor, Study

NOISE_RATIO = 0.1
LONGEST_GUARD = 300


Pair = tuple[str, str]  # effective keys that differ in one optimization: off, on


def pairs_of(study: Study, design: Design, name: str) -> tuple[Pair, ...]:
    """Find the pairs of cells that differ only in the named optimization (off and on level)."""
    factor = next(f for f in study.factors if f.name == name)
    by_rest: dict[tuple[str, int, tuple[tuple[str, str], ...]], dict[str, str]] = {}
    for designed in design.cells:
        cell = designed.cell
        acting = ((n, level) for n, level in cell.levels.items() if n not in designed.inert and n != name)
        rest = tuple(sorted(acting))
        levels = by_rest.setdefault((cell.execution, cell.repeat, rest), {})
        levels.setdefault(cell.levels.get(name, factor.off), designed.effective_key)
    found = [levels for levels in by_rest.values() if {factor.off, factor.on} <= levels.keys()]
    pairs = ((levels[factor.off], levels[factor.on]) for levels in found)
    return tuple((off, on) for off, on in pairs if off != on)


def naive_and_full(design: Design) -> tuple[Pair, ...]:
    """The one pair of an arms-only design, in which every optimization is switched at once.

    Each optimization declares a counter of its own, so the pair still says which of them did anything.
    """
    keys = {arm: cell.effective_key for cell in design.cells for arm in cell.arms}
    naive, full = keys.get("naive"), keys.get("full")
    return ((naive, full),) if naive and full and naive != full else ()


def make_verdicts(layout: Layout, trials: WorkloadTrials) -> list[EvidenceVerdict]:
    """Judge every varying optimization in one workload; evidence is compared only between trials of one block."""
    study, design = layout.study, layout.design
    why_inert = {c.subject: c.why_inert for c in layout.contrasts if c.why_inert and c.kind == "optimization"}
    return [_verdict(study, design, factor, why_inert.get(factor.name), trials) for factor in study.varying]


def flags(record: TrialRecord) -> tuple[str, ...]:
    """What a reader must know about a trial: it left the compiler, never became steady, or lacks a later stage."""
    found = []
    if record.compiles:
        first: dict[str, LimitHit | CompileEvent] = {}
        gave_up: list[LimitHit | CompileEvent] = [*record.evidence.limit_hits]
        gave_up += [event for event in record.evidence.events if event.failure]
        for end in sorted(gave_up, key=lambda end: end.step):
            first.setdefault(end.function, end)
        found += [_left_compiler(record, end) for end in first.values()]
        if not first and record.evidence.counters.get("limit_hits", 0) > 0:
            found.append("not really compiled: the recompile limit was reached")
    if record.completed and record.times is not None and record.times.steady_s is None:
        found.append("no steady state")
    found += [f"{failed.stage} failed after the training" for failed in record.failed_after]
    return tuple(found)


def _left_compiler(record: TrialRecord, end: LimitHit | CompileEvent) -> str:
    """Name the function that went on eagerly, since when, and at which sizes of the batch."""
    text = f"not really compiled: {end.function} eager after step {end.step}"
    if end.function != "forward" or not end.sizes:
        return text
    compiled = [e.sizes for e in record.evidence.events if e.function == "forward" and not e.failure and e.sizes]
    shown = f"; limit hit by {describe_sizes(end.sizes)}"
    return text + shown + (f", after kernels for {' | '.join(map(describe_sizes, compiled))}" if compiled else "")


def _verdict(
    study: Study, design: Design, factor: Factor, why_inert: str | None, trials: WorkloadTrials
) -> EvidenceVerdict:
    pairs = pairs_of(study, design, factor.name)
    jointly = not pairs and not why_inert
    if jointly:
        pairs = naive_and_full(design)
    results = tuple(_judge(e, pairs, trials) for e in factor.info.expectations)
    word, why = _word(study, factor, why_inert, pairs, results)
    return EvidenceVerdict(
        optimization=factor.name,
        emulation=factor.emulation or "",
        verdict=word,
        why=why,
        cause=why_inert or "",
        expectations=results,
        jointly=jointly and any(result.num_pairs for result in results),
    )


def _word(
    study: Study, factor: Factor, why_inert: str | None, pairs: tuple[Pair, ...], results: tuple[ExpectationResult, ...]
) -> tuple[EvidenceWord, WhyNotMeasured | None]:
    if why_inert and not pairs:
        return "inert", None
    if not factor.info.expectations:
        return "not measured", "nothing declared"
    if not pairs:
        return "not measured", "no pair of cells"
    if not any(r.num_pairs for r in results):
        return "not measured", "no pair of trials"
    held = [r for r in results if r.holds]
    if not held:
        return "vacuous", None
    is_device_only = all(counter_of(r.counter).device_only for r in held)
    return ("structural" if study.device == "cpu" and is_device_only else "bites"), None


def _judge(expectation: Expectation, pairs: tuple[Pair, ...], trials: WorkloadTrials) -> ExpectationResult:
    values = list(_counter_pairs(expectation.counter, pairs, trials.usable))
    moves = [_move(expectation.counter, off, on) for off, on in values]
    wanted = -1 if expectation.direction == "fewer" else 1
    return ExpectationResult(
        counter=expectation.counter,
        direction=expectation.direction,
        sentence=expectation.sentence,
        num_pairs=len(values),
        num_as_expected=moves.count(wanted),
        num_opposite=moves.count(-wanted),
        off_mean=sum(off for off, _ in values) / len(values) if values else None,
        on_mean=sum(on for _, on in values) / len(values) if values else None,
    )


def _counter_pairs(
    counter: str, pairs: tuple[Pair, ...], usable: Mapping[tuple[int, str], Trial]
) -> Iterator[tuple[float, float]]:
    for block in sorted({block for block, _ in usable}):
        for pair in pairs:
            off, on = (usable.get((block, key)) for key in pair)
            if off is None or on is None:
                continue
            before = off.record.evidence.counters.get(counter)
            after = on.record.evidence.counters.get(counter)
            if before is not None and after is not None:
                yield before, after


def _move(counter: str, off: float, on: float) -> int:
    """-1, 0 or 1: which way a counter moved; one that is a time must move by more than a tenth."""
    tolerance = NOISE_RATIO * abs(off) if counter_of(counter).noisy else 0.0
    return 0 if abs(on - off) <= tolerance else 1 if on > off else -1


def find_recompilations(records: Iterable[TrialRecord]) -> Iterator[Recompilation]:
    """List the recompilations of trials, in their order, and the recompile limits they hit."""
    for record in records:
        identity = record.identity
        name = identity.arms[0] if identity.arms else identity.effective_key
        ends = [(e.step, e.function, e.reason, e.sizes, False) for e in record.evidence.events if e.reason]
        ends += [(h.step, h.function, h.message, h.sizes, True) for h in record.evidence.limit_hits]
        for step, function, reason, sizes, gave_up in sorted(ends, key=lambda end: end[0]):
            yield Recompilation(
                block=identity.block,
                seed=identity.seed,
                name=name,
                step=step,
                function=function,
                guard=(reason or "")[:LONGEST_GUARD],
                batch=describe_sizes(sizes),
                gave_up=gave_up,
            )


def describe_sizes(sizes: Mapping[str, int]) -> str:
    """Nodes by type and all edges of a batch: `article 120, customer 64, transactions 300; 840 edges`."""
    if not sizes:
        return ""
    nodes = ", ".join(f"{name} {number}" for name, number in sizes.items() if " " not in name)
    return f"{nodes}; {sum(number for name, number in sizes.items() if ' ' in name)} edges"
