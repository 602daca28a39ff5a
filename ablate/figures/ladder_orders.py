"""Order ranges of a workload -> each optimization's rung in the guide's order, and its range over all orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from ablate.analysis.results.effects import OrderRange, Response
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES, format_factor, format_interval
from ablate.figures import style

TITLE = "The ladder, and what its order does to it"
ORDER = 25


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One response: a range per optimization, and its Shapley value."""

    title: str
    ranges: tuple[OrderRange, ...]
    shapley: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Info:
    """One panel for the steady time and one for the horizon."""

    workload: str
    panels: tuple[Panel, ...]


def info(result: WorkloadResults) -> Info | None:
    """Collect the ranges; None where the design lacks cells of the lattice or one optimization acts alone."""
    responses: tuple[Response, ...] = ("steady", result.speed.horizon)
    panels = []
    for response in responses:
        ranges = tuple(r for r in result.speed.order_ranges if r.response == response)
        if len(ranges) > 1:
            shapley = tuple(_shapley(result.speed, response, r.optimization) for r in ranges)
            panels.append(Panel(title=RESPONSE_NAMES[response], ranges=ranges, shapley=shapley))
    return Info(workload=result.name, panels=tuple(panels)) if panels else None


def panels(info: Info) -> int:
    return len(info.panels)


def height_in(info: Info) -> float:
    return 0.85 + 0.28 * max(len(panel.ranges) for panel in info.panels)


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """A bar from the smallest to the largest rung, a diamond for the guide's order, a tick for the Shapley value."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        style.factor_axis(ax, [x for r in panel.ranges for x in (r.low, r.high)])
        for row, item in enumerate(panel.ranges):
            ax.barh(row, item.high - item.low, left=item.low, height=0.42, color=style.GREYED, zorder=2)
            ax.plot([item.guide], [row], marker="D", markersize=4.5, color=style.FASTER, zorder=4)
            value = panel.shapley[row]
            if value is not None:
                ax.plot([value, value], [row - 0.3, row + 0.3], color=style.INK, linewidth=1.2, zorder=3)
        style.name_rows(ax, [r.optimization for r in panel.ranges], first=not index)
        ax.set_title(panel.title)
        ax.set_xlabel("speed-up of the rung (◆ guide's order, | Shapley value)")
        style.finish(ax)


def describe(info: Info) -> str:
    """Every rung with its range, in words."""
    parts = [
        f"{panel.title}: "
        + ", ".join(
            f"{r.optimization} {format_factor(r.guide)} (guide's), {format_interval((r.low, r.high))} (all orders)"
            for r in panel.ranges
        )
        for panel in info.panels
    ]
    return f"Ladder of {info.workload}. " + ". ".join(parts) + "."


def _shapley(speed: Speed, response: Response, name: str) -> float | None:
    effect = speed.effect(response, "optimization", name)
    return effect.estimate.speedup if effect and effect.estimate else None
