"""A number -> what a table of the report prints: a main text, a small text under it, and a tone; and tables of them."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict

from ablate.analysis.results.effects import Effect
from ablate.analysis.words.speed import format_factor, format_interval
from ablate.core.units import format_duration, percent_from_log

Tone = Literal["", "grey", "good", "bad", "strong"]


class TableCell(TypedDict):
    """One cell of a table; plain values, since it travels as JSON."""

    main: str
    small: str
    tone: Tone


class Table(TypedDict):
    """A table: headers and rows of cells; every row is as long as the headers."""

    headers: list[str]
    rows: list[list[TableCell]]


def table(headers: Sequence[str], rows: Iterable[Sequence[TableCell]]) -> Table:
    """Build a table."""
    return Table(headers=list(headers), rows=[list(row) for row in rows])


def cell(main: str, small: str = "", tone: Tone = "") -> TableCell:
    """Build a cell."""
    return TableCell(main=main, small=small, tone=tone)


EMPTY = cell("-", tone="grey")


def seconds(value: float | None) -> str:
    """A time with three digits: `7.26 s`, `420 ms`, `8 min 5 s`."""
    if value is None or not math.isfinite(value):
        return "-"
    if 1 <= value < 100:
        return f"{value:.3g} s"
    return format_duration(value)


def number(value: float | None, digits: int = 4) -> str:
    """A plain number, a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def count(value: float | None) -> str:
    """A counter: whole numbers without a point, means of several trials with one digit."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.1f}"


def percent(effect: float) -> str:
    """Percent faster with its sign: `+4.2 %`."""
    value = percent_from_log(effect)
    if abs(value) < 0.05:
        return "0.0\u00a0%"
    return f"{value:+.1f}\u00a0%" if abs(value) < 1000 else f"{value:+.3g}\u00a0%"


def speedup_cell(effect: Effect | None, *, simultaneous: bool = False, greyed: bool = False) -> TableCell:
    """Speed-up with percent, interval and how much it may be trusted.

    Args:
        effect: The effect; None = the design does not ask for it.
        simultaneous: Print the interval that holds for the whole family.
        greyed: Nothing is claimed for it, whatever the number.
    """
    if effect is None:
        return EMPTY
    if effect.inert:
        return cell("0 by construction", "inert", "grey")
    if effect.estimate is None:
        return cell("not reported", "", "grey")
    est = effect.estimate
    tone: Tone = "grey" if greyed else ""
    if effect.claimed:
        tone = "good" if est.effect > 0 else "bad"
    interval = est.simultaneous if simultaneous else est.interval
    pilot = ", pilot" if est.grade == "pilot" else ""
    small = format_interval(interval) + pilot if interval else "1 block, no interval"
    return cell(f"{format_factor(est.speedup)} ({percent(est.effect)})", small, tone)
