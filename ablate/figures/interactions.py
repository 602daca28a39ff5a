"""Pair effects of a workload -> how much more, or less, two optimizations gain together, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import format_factor
from ablate.figures import style

TITLE = "Pairs of optimizations (exploratory)"
ORDER = 28


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair: above 1 they gain more together than one by one; the interval holds for all pairs of the panel."""

    name: str
    factor: float
    interval: tuple[float, float] | None


Info = style.Info[Pair]
panels = style.num_panels
height_in = style.height_of_rows


def info(result: WorkloadResults) -> Info | None:
    """Collect the pairs; None where the design identifies none."""
    return style.by_time(
        result,
        lambda response: [
            Pair(name=effect.subject, factor=effect.estimate.speedup, interval=effect.estimate.simultaneous)
            for effect in result.speed.of_kind("interaction", response)
            if effect.estimate
        ],
    )


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """A dot with its interval per pair; 1 means that two optimizations neither help nor hinder one another."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        factors = [pair.factor for pair in panel.rows]
        style.factor_axis(ax, style.extent(factors, (x for pair in panel.rows for x in pair.interval or ())))
        for row, pair in enumerate(panel.rows):
            if pair.interval is not None:
                ax.plot(pair.interval, [row, row], color=style.MUTED, linewidth=1.2, zorder=3)
        ax.plot(factors, range(len(factors)), marker="o", markersize=4, linestyle="", color=style.INK, zorder=4)
        style.name_rows(ax, [pair.name for pair in panel.rows], first=not index)
        style.finish(ax, panel.title, "gain together beyond the gains alone")


def describe(info: Info) -> str:
    """The largest pair of every panel, in words."""
    parts = []
    for panel in info.panels:
        largest = max(panel.rows, key=lambda pair: abs(pair.factor - 1.0))
        parts.append(f"{panel.title}: {len(panel.rows)} pairs, the largest is {largest.name} with "
                     f"{format_factor(largest.factor)}")  # fmt: skip
    return f"Interactions of pairs in {info.workload}. " + ". ".join(parts) + "."
