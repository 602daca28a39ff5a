"""Results of a workload -> the tables beside the attribution, and what its numbers lack."""

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.analysis.results.effects import Effect, OrderRange, Response, Sensitivity
from ablate.analysis.results.quality import RunOrder, Stability
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES, format_factor, format_interval, why_not_reported
from ablate.core.contrast import ContrastKind
from ablate.core.units import grouped, name_some
from ablate.report.cells import EMPTY, Table, TableCell, cell, percent, speedup_cell, table

KIND_WORDS: Mapping[ContrastKind, str] = {
    "total": "total",
    "compile": "compile term",
    "optimization": "Shapley value of",
    "layer": "Shapley value of the layer",
    "interaction": "pair",
    "moebius": "Moebius term of",
    "lack-of-fit": "lack of fit",
    "level": "level",
    "leave-one-out": "leaving out one of",
    "add-one-in": "adding one of",
    "ladder": "ladder steps",
    "eager-optimization": "in eager mode",
    "a/a": "noise floor from a second measurement of",
}
MOST_CELLS = 8


def unidentified_numbers(speed: Speed, used: Sequence[Response]) -> list[str]:
    """What the design or missing trials leave open, one line per kind of number (and reason)."""
    refused = [e for e in speed.effects if e.response in used[:1] and e.refused]
    lacking = grouped((KIND_WORDS[e.kind], e) for e in refused if e.lacks)
    others = grouped((why_not_reported(e), _named(e)) for e in refused if not e.lacks)
    lines = [_lack(name, effects) for name, effects in lacking.items()]
    return lines + [f"{', '.join(names)}: {reason}" for reason, names in others.items()]


def dropped_blocks(result: WorkloadResults, used: Sequence[Response]) -> list[str]:
    """Numbers that rest on fewer blocks than the study has, grouped by the blocks they use."""
    every = {trial.block for trial in result.quality.trials}
    groups = grouped(
        ((RESPONSE_NAMES[e.response], e.estimate.blocks), _named(e))
        for e in result.speed.effects
        if e.estimate and e.dropped and e.response in used and len(e.estimate.blocks) < len(every)
    )
    return [
        f"{response}, block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))} only: {name_some(names, 6)}"
        for (response, blocks), names in groups.items()
    ]


def _named(effect: Effect) -> str:
    return f"{KIND_WORDS[effect.kind]} {effect.subject}".strip()


def _lack(name: str, effects: Sequence[Effect]) -> str:
    needed = list(dict.fromkeys(cell for effect in effects for cell in effect.lacks))
    text = ", ".join(needed[:MOST_CELLS]) + (" and more" if len(needed) > MOST_CELLS else "")
    what = f"{name} {', '.join(e.subject for e in effects if e.subject)}".strip()
    return f"{what}: this design has no cell {text}"


METHODS = ("Satterthwaite", "cluster bootstrap", "mean of epochs", "fastest epoch")


def attribution_section(result: WorkloadResults, used: Sequence[Response]) -> dict[str, Any]:
    """Work out every table (None where there is nothing to show), and the remarks."""
    speed = result.speed
    return {
        "pairs": _pairs(speed, used),
        "orders": _orders(speed, used),
        "levels": _plain(speed, used, "level", "level"),
        "sensitivity": _sensitivity(speed),
        "assumes": next((e.assumes for e in speed.effects if e.assumes), ""),
        "fold_over": _fold_over(speed),
        "run_order": _run_order(result.quality.run_order),
        "precision": _precision(speed, used),
        "stability": _stability(result.quality.stability),
    }


def _pairs(speed: Speed, used: Sequence[Response]) -> Table | None:
    found = _plain(speed, used, "interaction", "pair (exploratory)")
    lack = _plain(speed, used, "lack-of-fit", "")
    if found is not None and lack is not None:
        first = cell("lack of fit", "what the pairs leave unexplained", "strong")
        found["rows"].extend([first, *row[1:]] for row in lack["rows"])
    return found


def _plain(speed: Speed, used: Sequence[Response], kind: ContrastKind, header: str) -> Table | None:
    """One row per subject of a kind that has no verdict of its own."""
    subjects = dict.fromkeys(e.subject for e in speed.effects if e.kind == kind and e.estimate is not None)
    if not subjects:
        return None
    rows = [
        [cell(subject, tone="strong"), *(speedup_cell(speed.effect(r, kind, subject), simultaneous=True) for r in used)]
        for subject in subjects
    ]
    return table([header, *(RESPONSE_NAMES[r] for r in used)], rows)


def _orders(speed: Speed, used: Sequence[Response]) -> Table | None:
    ranges = {(r.optimization, r.response): r for r in speed.order_ranges}
    names = dict.fromkeys(name for name, _ in ranges)
    if len(names) < 2:
        return None
    rows = [[cell(name, tone="strong"), *(_order(ranges.get((name, r))) for r in used)] for name in names]
    return table(["rung: guide's order, range over all", *(RESPONSE_NAMES[r] for r in used)], rows)


def _order(item: OrderRange | None) -> TableCell:
    if item is None:
        return EMPTY
    main = f"{format_factor(item.guide)}, {format_interval((item.low, item.high))}"
    return cell(main, f"largest after {', '.join(item.high_after) or 'none'}")


def _sensitivity(speed: Speed) -> Table | None:
    """Steady time only: the primary interval beside the others."""
    steady = [s for s in speed.sensitivity if s.response == "steady"]
    rows = []
    for effect in speed.effects:
        est = effect.estimate
        others = {s.method: s for s in steady if (s.kind, s.subject) == (effect.kind, effect.subject)}
        if effect.response == "steady" and est is not None and est.interval is not None and others:
            first = [cell(effect.subject or effect.kind, tone="strong")]
            first.append(cell(percent(est.effect), format_interval(est.interval)))
            rows.append([*first, *(_other(others.get(method)) for method in METHODS)])
    return table(["steady epoch", "block-t (primary)", *METHODS], rows) if rows else None


def _other(item: Sensitivity | None) -> TableCell:
    if item is None:
        return EMPTY
    small = format_interval(item.interval) if item.interval else "no interval"
    return cell(f"{100 * (item.speedup - 1):+.1f}\u00a0%", small, "grey")


def _fold_over(speed: Speed) -> list[str]:
    return [
        f"{RESPONSE_NAMES[f.response]}: {f.verdict}" + (f" ({'; '.join(f.reasons)})" if f.reasons else "")
        for f in speed.fold_over
    ]


def _run_order(row: RunOrder | None) -> str:
    if row is None or row.interval is None:
        return ""
    low, high = (100 * (end - 1) for end in row.interval)
    return (
        f"Drift of the steady time from the first to the last trial of a block: {100 * (row.drift - 1):+.1f} % "
        f"(95 % interval {low:+.1f} to {high:+.1f} %)"
    )


def _precision(speed: Speed, used: Sequence[Response]) -> str:
    parts = []
    for row in (row for row in speed.precision if row.response in used):
        width = f"±{100 * row.half_width:.1f} % with {row.num_blocks} blocks"
        needed = [f"±{100 * n.half_width:g} % takes {n.blocks or 'more than 400'}" for n in row.blocks_needed]
        parts.append(f"{RESPONSE_NAMES[row.response]}: {width} ({', '.join(needed)})")
    return "Widest simultaneous interval, and blocks for a narrower one. " + "; ".join(parts) if parts else ""


def _stability(stability: Sequence[Stability]) -> str:
    rows = [s for s in stability if s.verdict != "too short"]
    if not rows:
        return ""
    words = ("flat", "settles", "no steady state")
    counts = ", ".join(f"{sum(s.verdict == word for s in rows)} {word}" for word in words)
    return f"Step times after the last compilation, {len(rows)} trials: {counts}"
