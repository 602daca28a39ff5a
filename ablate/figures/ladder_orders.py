"""Order ranges of a workload -> each optimization's rung in the guide's order, and its range over all orders."""

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes

from ablate.analysis.results.effects import OrderRange, Response
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import format_factor, format_interval
from ablate.figures import style

TITLE = "The ladder, and what its order does to it"
ORDER = 25


Rung = tuple[OrderRange, float | None]  # and the Shapley value of its optimization
Info = style.Info[Rung]
panels = style.num_panels
height_in = partial(style.height_of_rows, row_in=0.28)


def info(result: WorkloadResults) -> Info | None:
    """Collect the ranges; None where the design lacks cells of the lattice or one optimization acts alone."""

    def rungs(response: Response) -> list[Rung]:
        ranges = [r for r in result.speed.order_ranges if r.response == response]
        effects = [result.speed.effect(response, "optimization", r.optimization) for r in ranges]
        shapley = [e.estimate.speedup if e and e.estimate else None for e in effects]
        return list(zip(ranges, shapley, strict=True)) if len(ranges) > 1 else []

    return style.by_time(result, rungs)


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """A bar from the smallest to the largest rung, a diamond for the guide's order, a tick for the Shapley value."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        style.factor_axis(ax, [x for r, _ in panel.rows for x in (r.low, r.high)])
        for row, (item, value) in enumerate(panel.rows):
            ax.barh(row, item.high - item.low, left=item.low, height=0.42, color=style.GREYED, zorder=2)
            ax.plot([item.guide], [row], marker="D", markersize=4.5, color=style.FASTER, zorder=4)
            if value is not None:
                ax.plot([value, value], [row - 0.3, row + 0.3], color=style.INK, linewidth=1.2, zorder=3)
        style.name_rows(ax, [r.optimization for r, _ in panel.rows], first=not index)
        style.finish(ax, panel.title, "speed-up of the rung (◆ guide's order, | Shapley value)")


def describe(info: Info) -> str:
    """Every rung with its range, in words."""
    return style.describe(f"Ladder of {info.workload}", info, _words)


def _words(rung: Rung) -> str:
    r, _ = rung
    return f"{r.optimization} {format_factor(r.guide)} (guide's), {format_interval((r.low, r.high))} (all orders)"
