"""Summaries of a workload -> every named cell against eager, for both times, with intervals and blocks as dots."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes

from ablate.analysis.results.effects import Response
from ablate.analysis.results.speed import ArmSummary
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import format_factor
from ablate.figures import style

TITLE = "Every arm against eager"
ORDER = 20


@dataclass(frozen=True, kw_only=True)
class Row:
    """Speed-up of an arm against eager, its interval and its blocks; None where it was not measured."""

    name: str
    speedup: float | None
    interval: tuple[float, float] | None = None
    per_block: tuple[float, ...] = ()


Info = style.Info[Row]
panels = style.num_panels
height_in = partial(style.height_of_rows, row_in=0.29)


def info(result: WorkloadResults) -> Info | None:
    """Collect the arms; None when nothing can be compared with eager."""
    arms = [a for a in result.speed.arms if a.versus_eager]

    def rows_of(response: Response) -> list[Row]:
        rows = [_row(arm, response) for arm in arms]
        return rows if any(row.speedup for row in rows) else []

    return style.by_time(result, rows_of)


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """One row per arm: a diamond with its interval, small dots for the blocks, a line at 1 for eager."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        points = style.finite(x for row in panel.rows for x in (row.speedup, *row.per_block))
        style.factor_axis(ax, style.extent(points, (x for row in panel.rows for x in row.interval or ())))
        for row, item in enumerate(panel.rows):
            _draw_row(ax, row, item)
        style.name_rows(
            ax, [row.name for row in panel.rows], greyed=[r.speedup is None for r in panel.rows], first=not index
        )
        style.finish(ax, panel.title, "speed-up against eager")


def describe(info: Info) -> str:
    """Every arm with its factor, in words."""
    start = f"Speed-up of every arm of {info.workload} against eager"
    return style.describe(
        start, info, lambda r: f"{r.name} {format_factor(r.speedup) if r.speedup else 'not measured'}"
    )


def _row(arm: ArmSummary, response: Response) -> Row:
    effect = arm.versus_eager.get(response)
    if effect is None or effect.estimate is None:
        return Row(name=arm.label, speedup=None)
    est = effect.estimate
    return Row(
        name=arm.label, speedup=est.speedup, interval=est.interval, per_block=tuple(map(math.exp, est.per_block))
    )


def _draw_row(ax: Axes, row: int, item: Row) -> None:
    if item.speedup is None:
        ax.annotate("not measured", (1.0, row), xytext=(4, 0), textcoords="offset points", va="center",
                    fontsize=6.5, color=style.MUTED, in_layout=False)  # fmt: skip
        return
    color = style.FASTER if item.speedup >= 1 else style.SLOWER
    if item.interval is not None:
        ax.plot(item.interval, [row, row], color=color, linewidth=1.4, solid_capstyle="butt", zorder=3)
    ax.scatter(item.per_block, [row] * len(item.per_block), s=9, color=color, alpha=0.45, linewidths=0, zorder=4)
    ax.plot([item.speedup], [row], marker="D", markersize=4.5, color=color, markeredgecolor="white",
            markeredgewidth=0.5, zorder=5)  # fmt: skip
    ax.annotate(format_factor(item.speedup), (item.speedup, row), xytext=(0, 3.5), textcoords="offset points",
                ha="center", va="bottom", fontsize=6, in_layout=False)  # fmt: skip
