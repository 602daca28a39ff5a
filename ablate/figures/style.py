"""Nothing -> the look that all figures share: theme, colors safe for color-blind readers, labels, axes of factors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

WIDTH_IN = 7.0
ROW_IN = 0.24
LONGEST_LABEL = 34
INK, GRID, MUTED = "#2b2b2b", "#e3e3e3", "#9a9a9a"
FASTER, SLOWER, REFERENCE, GREYED = "#0173b2", "#d55e00", "#4d4d4d", "#d0d0d0"
COLORS: tuple[str, ...] = tuple(sns.color_palette("colorblind").as_hex())
FACTOR_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05,
                1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)  # fmt: skip


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


def finish(ax: Axes, *, grid: str = "x") -> None:
    """Take away the frame that carries nothing and lay a light grid under the data."""
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
