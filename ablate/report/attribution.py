"""Results of a workload -> the tables beside the attribution: pairs, orders, sensitivity, noise, fraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.analysis.results.study import Effect, Response, Results, Sensitivity
from ablate.analysis.words.speed import RESPONSE_NAMES, format_factor, format_interval
from ablate.report.cells import EMPTY, TableCell, cell, percent, speedup_cell

METHODS = ("Satterthwaite", "cluster bootstrap", "mean of epochs", "fastest epoch")
Header = tuple[list[str], list[list[TableCell]]]


def attribution_section(results: Results, workload: str, used: Sequence[Response]) -> dict[str, Any]:
    """Work out headers and rows of every table (None where there is nothing to show), and the remarks."""
    return {
        "pairs": _as_table(_pairs(results, workload, used)),
        "orders": _as_table(_orders(results, workload, used)),
        "levels": _as_table(_plain(results, workload, used, "level", "level")),
        "sensitivity": _as_table(_sensitivity(results, workload)),
        "assumes": next((e.assumes for e in results.effects if e.workload == workload and e.assumes), ""),
        "fold_over": _fold_over(results, workload),
        "run_order": _run_order(results, workload),
        "precision": _precision(results, workload, used),
        "stability": _stability(results, workload),
    }


def _as_table(found: Header | None) -> dict[str, Any] | None:
    return None if found is None else {"headers": found[0], "rows": found[1]}


def _pairs(results: Results, workload: str, used: Sequence[Response]) -> Header | None:
    found = _plain(results, workload, used, "interaction", "pair (exploratory)")
    lack = _plain(results, workload, used, "lack-of-fit", "")
    if found is not None and lack is not None:
        first = cell("lack of fit", "what the pairs leave unexplained", "strong")
        found[1].extend([first, *row[1:]] for row in lack[1])
    return found


def _plain(results: Results, workload: str, used: Sequence[Response], kind: str, header: str) -> Header | None:
    """One row per subject of a kind that has no verdict of its own."""
    effects = [e for e in results.effects if (e.workload, e.kind) == (workload, kind)]
    subjects = dict.fromkeys(e.subject for e in effects if e.estimate is not None)
    if not subjects:
        return None
    by_place: Mapping[tuple[str, str], Effect] = {(e.subject, e.response): e for e in effects}
    rows = [
        [cell(subject, tone="strong"), *(speedup_cell(by_place.get((subject, r)), simultaneous=True) for r in used)]
        for subject in subjects
    ]
    return [header, *(RESPONSE_NAMES[r] for r in used)], rows


def _orders(results: Results, workload: str, used: Sequence[Response]) -> Header | None:
    ranges = {(r.optimization, r.response): r for r in results.order_ranges if r.workload == workload}
    names = dict.fromkeys(name for name, _ in ranges)
    if len(names) < 2:
        return None
    rows = []
    for name in names:
        row = [cell(name, tone="strong")]
        for response in used:
            item = ranges.get((name, response))
            row.append(
                EMPTY
                if item is None
                else cell(
                    f"{format_factor(item.guide)}, {format_interval((item.low, item.high))}",
                    f"largest after {', '.join(item.high_after) or 'none'}",
                )
            )
        rows.append(row)
    return ["rung: guide's order, range over all", *(RESPONSE_NAMES[r] for r in used)], rows


def _sensitivity(results: Results, workload: str) -> Header | None:
    """Steady time only: the primary interval beside the others."""
    rows = []
    for effect in results.effects:
        est = effect.estimate
        if (effect.workload, effect.response) != (workload, "steady") or est is None or est.interval is None:
            continue
        others = {
            s.method: s
            for s in results.sensitivity
            if (s.workload, s.response, s.kind, s.subject) == (workload, "steady", effect.kind, effect.subject)
        }
        if others:
            rows.append(
                [
                    cell(effect.subject or effect.kind, tone="strong"),
                    cell(percent(est.effect), format_interval(est.interval)),
                    *(_other(others.get(method)) for method in METHODS),
                ]
            )
    return (["steady epoch", "block-t (primary)", *METHODS], rows) if rows else None


def _other(item: Sensitivity | None) -> TableCell:
    if item is None:
        return EMPTY
    small = format_interval(item.interval) if item.interval else "no interval"
    return cell(f"{100 * (item.speedup - 1):+.1f}\u00a0%", small, "grey")


def _fold_over(results: Results, workload: str) -> list[str]:
    return [
        f"{RESPONSE_NAMES[f.response]}: {f.verdict}" + (f" ({'; '.join(f.reasons)})" if f.reasons else "")
        for f in results.fold_over
        if f.workload == workload
    ]


def _run_order(results: Results, workload: str) -> str:
    for row in results.run_order:
        if row.workload == workload and row.interval is not None:
            low, high = (100 * (end - 1) for end in row.interval)
            return (
                f"Drift of the steady time from the first to the last trial of a block: {100 * (row.drift - 1):+.1f} % "
                f"(95 % interval {low:+.1f} to {high:+.1f} %)"
            )
    return ""


def _precision(results: Results, workload: str, used: Sequence[Response]) -> str:
    parts = []
    for row in results.precision:
        if row.workload == workload and row.response in used:
            needed = ", ".join(
                f"±{100 * needed.half_width:g} % takes {needed.blocks or 'more than 400'}"
                for needed in row.blocks_needed
            )
            parts.append(
                f"{RESPONSE_NAMES[row.response]}: ±{100 * row.half_width:.1f} % with {row.num_blocks} blocks ({needed})"
            )
    return "Widest simultaneous interval, and blocks for a narrower one. " + "; ".join(parts) if parts else ""


def _stability(results: Results, workload: str) -> str:
    rows = [s for s in results.stability if s.workload == workload and s.verdict != "too short"]
    if not rows:
        return ""
    counts = {word: sum(s.verdict == word for s in rows) for word in ("flat", "settles", "no steady state")}
    return f"Step times after the last compilation, {len(rows)} trials: " + ", ".join(
        f"{count} {word}" for word, count in counts.items()
    )
