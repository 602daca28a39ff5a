"""Rows for each time -> panels side by side, and their look: theme, safe colors, labels, axes of factors."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from ablate.analysis.results.effects import Response
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES

WIDTH_IN = 7.0
ROW_IN = 0.24
LONGEST_LABEL = 34
INK, GRID, MUTED = "#2b2b2b", "#e3e3e3", "#9a9a9a"
FASTER, SLOWER, REFERENCE, GREYED = "#0173b2", "#d55e00", "#4d4d4d", "#d0d0d0"
COLORS: tuple[str, ...] = tuple(sns.color_palette("colorblind").as_hex())
FACTOR_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05,
                1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # fmt: skip

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True)
class Panel(Generic[Row]):
    """One of the axes side by side, with one value per row."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Info(Generic[Row]):
    """The panels of a figure about one workload."""

    workload: str
    panels: tuple[Panel[Row], ...]


def by_time(result: WorkloadResults, rows_of: Callable[[Response], Iterable[Row]]) -> Info[Row] | None:
    """A panel for the steady epoch and one for the horizon, as far as they have rows; None where neither has any."""
    responses: tuple[Response, ...] = ("steady", result.speed.horizon)
    panels = [Panel(title=RESPONSE_NAMES[r], rows=rows) for r in responses if (rows := tuple(rows_of(r)))]
    return Info(workload=result.name, panels=tuple(panels)) if panels else None


def num_panels(info: Any) -> int:
    """Number of axes of a figure whose numbers have `panels`."""
    return len(info.panels)


def height_of_rows(info: Info[Any], *, head_in: float = 0.85, row_in: float = ROW_IN) -> float:
    """Height in inches of a figure with one line per row."""
    return head_in + row_in * max(len(panel.rows) for panel in info.panels)


def describe(start: str, info: Info[Row], words: Callable[[Row], str]) -> str:
    """Every row of every panel in words, for readers who cannot see the figure."""
    return f"{start}. {'. '.join(f'{p.title}: ' + ', '.join(map(words, p.rows)) for p in info.panels)}."


def theme() -> Any:
    """Settings of matplotlib for `rc_context`: names are printed as they are (no math), SVG bytes are repeatable."""
    return {
        **sns.axes_style("white"),
        **sns.plotting_context("paper"),
        "font.family": ["DejaVu Sans"],
        "font.size": 7.5,
        "axes.titlesize": 8.0,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 7.5,
        "axes.edgecolor": MUTED,
        "axes.linewidth": 0.6,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": 7.0,
        "ytick.labelsize": 7.0,
        "legend.fontsize": 7.0,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "text.parse_math": False,
        "text.usetex": False,
        "svg.fonttype": "path",
        "svg.hashsalt": "ablate",
    }


def label(text: str) -> str:
    """A name as one line that fits beside an axis: control characters become spaces, the middle of long ones goes."""
    line = re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text).strip() or "(no name)"
    if len(line) <= LONGEST_LABEL:
        return line
    half = (LONGEST_LABEL - 1) // 2
    return f"{line[:half]}…{line[-half:]}"


def finite(values: Iterable[float | None]) -> list[float]:
    """The values that are there and finite."""
    return [value for value in values if value is not None and math.isfinite(value)]


def finish(ax: Axes, title: str, xlabel: str, *, grid: str = "x") -> None:
    """Name a panel and its axis, take away the frame that carries nothing, lay a light grid under the data."""
    ax.set_title(title)
    ax.set_xlabel(xlabel)
    sns.despine(ax=ax, left=grid == "x")
    ax.set_axisbelow(True)
    ax.grid(visible=True, axis=grid)  # type: ignore[arg-type]
    ax.tick_params(length=2.5, width=0.6)


def name_rows(ax: Axes, names: Sequence[str], *, greyed: Sequence[bool] = (), first: bool = True) -> None:
    """Write one name per row, first on top; greyed names in grey, none beside a panel that is not the first."""
    if first:
        ax.set_yticks(range(len(names)), [label(name) for name in names])
    else:
        ax.set_yticks([])  # empty labels would be laid out all the same
    ax.set_ylim(len(names) - 0.4, -0.7)
    for tick, grey in zip(ax.get_yticklabels(), greyed, strict=False):
        tick.set_color(MUTED if grey else INK)
    ax.tick_params(axis="y", length=0)


def factor_axis(ax: Axes, factors: Iterable[float]) -> None:
    """Make x a logarithmic axis of speed-up factors that covers the given ones and 1, with readable ticks."""
    present = [f for f in finite(factors) if f > 0] + [1.0]
    low, high = math.log(min(present)), math.log(max(present))
    pad = max(0.06 * (high - low), 0.01)
    start, stop = low - pad, high + 2.6 * pad
    ax.set_xscale("log")
    ax.set_xlim(math.exp(start), math.exp(stop))
    ticks = _spread([t for t in FACTOR_TICKS if start <= math.log(t) <= stop], (stop - start) / 5.5)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{tick:g}x" for tick in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.axvline(1.0, color=REFERENCE, linewidth=0.8, zorder=1)


def extent(points: Sequence[float], ends: Iterable[float | None]) -> list[float]:
    """What an axis of factors must cover: all points, and ends of intervals unless they would hide the points."""
    low, high = min([*points, 1.0]), max([*points, 1.0])
    room = max(high / low, 1.1) ** 2
    return [*points, *(min(max(end, low / room), high * room) for end in finite(ends))]


def log_axis(ax: Axes) -> None:
    """Make y a logarithmic axis of small ratios with few ticks."""
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(numticks=7))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))


def note(ax: Axes, text: str) -> None:
    """Write a remark in the middle of an empty panel."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=MUTED, wrap=True)


def _spread(ticks: Sequence[float], gap: float) -> list[float]:
    """Keep ticks at least `gap` apart on the log axis, starting from 1 outwards."""
    kept = [1.0]
    for tick in sorted(ticks, key=lambda t: abs(math.log(t))):
        if all(abs(math.log(tick) - math.log(other)) >= gap for other in kept):
            kept.append(tick)
    return sorted(kept)
