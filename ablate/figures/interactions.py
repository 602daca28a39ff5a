"""Pair effects of a workload -> how much more, or less, two optimizations gain together, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from ablate.analysis.results.effects import Effect, Response
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES, format_factor
from ablate.figures import style

TITLE = "Pairs of optimizations (exploratory)"
ORDER = 28


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair: above 1 they gain more together than one by one; the interval holds for all pairs of the panel."""

    name: str
    factor: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The pairs of one response."""

    title: str
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, kw_only=True)
class Info:
    """One panel for the steady time and one for the horizon."""

    workload: str
    panels: tuple[Panel, ...]


def info(result: WorkloadResults) -> Info | None:
    """Collect the pairs; None where the design identifies none."""
    responses: tuple[Response, ...] = ("steady", result.speed.horizon)
    panels = []
    for response in responses:
        found = [e for e in result.speed.of_kind("interaction", response) if e.estimate]
        if found:
            panels.append(Panel(title=RESPONSE_NAMES[response], pairs=tuple(map(_pair, found))))
    return Info(workload=result.name, panels=tuple(panels)) if panels else None


def panels(info: Info) -> int:
    return len(info.panels)


def height_in(info: Info) -> float:
    return 0.85 + style.ROW_IN * max(len(panel.pairs) for panel in info.panels)


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """A dot with its interval per pair; 1 means that two optimizations neither help nor hinder one another."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        style.factor_axis(ax, _extent(panel))
        for row, pair in enumerate(panel.pairs):
            if pair.interval is not None:
                ax.plot(pair.interval, [row, row], color=style.MUTED, linewidth=1.2, zorder=3)
        rows = range(len(panel.pairs))
        ax.plot([p.factor for p in panel.pairs], rows, marker="o", markersize=4, linestyle="", color=style.INK,
                zorder=4)  # fmt: skip
        style.name_rows(ax, [pair.name for pair in panel.pairs], first=not index)
        ax.set_title(panel.title)
        ax.set_xlabel("gain together beyond the gains alone")
        style.finish(ax)


def describe(info: Info) -> str:
    """The largest pair of every panel, in words."""
    parts = []
    for panel in info.panels:
        largest = max(panel.pairs, key=lambda pair: abs(pair.factor - 1.0))
        parts.append(f"{panel.title}: {len(panel.pairs)} pairs, the largest is {largest.name} with "
                     f"{format_factor(largest.factor)}")  # fmt: skip
    return f"Interactions of pairs in {info.workload}. " + ". ".join(parts) + "."


def _pair(effect: Effect) -> Pair:
    assert effect.estimate is not None
    return Pair(name=effect.subject, factor=effect.estimate.speedup, interval=effect.estimate.simultaneous)


def _extent(panel: Panel) -> list[float]:
    """All points, and intervals unless they are so wide that they would hide the points."""
    points = [pair.factor for pair in panel.pairs]
    low, high = min([*points, 1.0]), max([*points, 1.0])
    room = max(high / low, 1.1) ** 2
    ends = style.finite(x for pair in panel.pairs for x in pair.interval or ())
    return points + [min(max(end, low / room), high * room) for end in ends]
