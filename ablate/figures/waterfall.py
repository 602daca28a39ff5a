"""Effects of a workload -> the steps from eager over naive compilation and each optimization to full."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from matplotlib.axes import Axes

from ablate.analysis.results.effects import Effect, Response
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.speed.effects import common_blocks
from ablate.analysis.words.speed import RESPONSE_NAMES, format_factor
from ablate.figures import style

TITLE = "From eager to full, step by step"
ORDER = 10
UNCLAIMED = ("vacuous", "inert", "structural")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One bar: from `start` to `stop` (speed-up against eager so far); `low`, `high` bound where it may end.

    Attributes:
        factor: Speed-up of this step alone.
        total: The bar is a standing point (eager, full), not a step.
        unclaimed: The evidence's verdict where nothing is claimed (vacuous, inert or structural), or empty.
        emulated: Its off is an emulation.
    """

    name: str
    start: float
    stop: float
    factor: float
    low: float | None = None
    high: float | None = None
    total: bool = False
    unclaimed: str = ""
    emulated: bool = False

    @property
    def label(self) -> str:
        """The name, and what must be known beside it."""
        return f"{self.name} ({self.unclaimed})" if self.unclaimed else f"{self.name}*" if self.emulated else self.name


@dataclass(frozen=True, kw_only=True)
class Panel(style.Panel[Step]):
    """One response: its steps and the blocks behind all of them."""

    num_blocks: int


@dataclass(frozen=True, kw_only=True)
class Info(style.Info[Step]):
    """One panel for the steady time and one for the horizon."""

    panels: tuple[Panel, ...]


panels = style.num_panels
height_in = style.height_of_rows


def info(result: WorkloadResults) -> Info | None:
    """Stack the compile term and the Shapley values; None where the design cannot identify them."""
    responses: tuple[Response, ...] = ("steady", result.speed.horizon)
    panels = [panel for r in responses if (panel := _panel(result.speed, r)) is not None]
    return Info(workload=result.name, panels=tuple(panels)) if panels else None


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """One row per step; blue is faster, orange slower, light grey is not claimed."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        edges = [x for s in panel.rows for x in (s.start, s.stop, s.low, s.high) if x is not None]
        style.factor_axis(ax, edges)
        for row, step in enumerate(panel.rows):
            _draw_step(ax, row, step, panel.rows[row + 1].start if row + 1 < len(panel.rows) else None)
        greyed = [bool(s.unclaimed) for s in panel.rows]
        style.name_rows(ax, [s.label for s in panel.rows], greyed=greyed, first=not index)
        note = "; * off is an emulation" if any(s.emulated and not s.unclaimed for s in panel.rows) else ""
        style.finish(ax, panel.title, f"speed-up against eager ({_blocks(panel.num_blocks)}){note}")


def describe(info: Info) -> str:
    """Every step with its factor, in words."""
    return style.describe(
        f"Waterfall of {info.workload}", info, lambda step: f"{step.label} {format_factor(step.factor)}"
    )


def _panel(speed: Speed, response: Response) -> Panel | None:
    total, compiled = speed.effect(response, "total"), speed.effect(response, "compile")
    parts = [e for e in speed.effects if e.response == response and e.kind in ("optimization", "lack-of-fit")]
    if total is None or compiled is None or not parts or any(e.refused for e in (total, compiled, *parts)):
        return None
    blocks = common_blocks([total, compiled, *parts])
    if not blocks:
        return None
    steps = [Step(name="eager", start=1.0, stop=1.0, factor=1.0, total=True)]
    level = 0.0
    for effect in parts if compiled.inert else (compiled, *parts):
        value, half = _mean(effect, blocks)
        name = effect.subject or ("lack of fit" if effect.kind == "lack-of-fit" else "naive compile")
        evidence = speed.verdict(effect.subject)
        low, high = _bounds(level + value, half)
        steps.append(
            Step(
                name=name,
                start=math.exp(level),
                stop=math.exp(level + value),
                factor=math.exp(value),
                low=low,
                high=high,
                unclaimed=evidence.verdict if evidence and evidence.verdict in UNCLAIMED else "",
                emulated=bool(evidence and evidence.emulation),
            )
        )
        level += value
    value, half = _mean(total, blocks)
    low, high = _bounds(value, half)
    full = math.exp(value)
    steps.append(Step(name="full", start=1.0, stop=full, factor=full, total=True, low=low, high=high))
    return Panel(title=RESPONSE_NAMES[response], rows=tuple(steps), num_blocks=len(blocks))


def _mean(effect: Effect, blocks: tuple[int, ...]) -> tuple[float, float | None]:
    """Mean over the common blocks, and the half-width of the interval where it rests on the same blocks."""
    est = effect.estimate
    if est is None:
        return 0.0, None
    value = fmean(est.per_block[est.blocks.index(block)] for block in blocks)
    if est.blocks != blocks or est.interval is None:
        return value, None
    return value, math.log(est.interval[1]) - est.effect


def _bounds(end: float, half: float | None) -> tuple[float, float] | tuple[None, None]:
    return (None, None) if half is None else (math.exp(end - half), math.exp(end + half))


def _blocks(count: int) -> str:
    if count == 1:
        return "1 block, no interval"
    return f"{count} blocks, pilot" if count < 5 else f"{count} blocks"


def _draw_step(ax: Axes, row: int, step: Step, following: float | None) -> None:
    color = style.FASTER if step.factor >= 1 else style.SLOWER
    if step.total:
        ax.plot([step.stop], [row], marker="D", markersize=5, color=style.REFERENCE, zorder=4)
        if step.stop != 1.0:
            ax.barh(row, step.stop - 1.0, left=1.0, height=0.5, color=style.REFERENCE, alpha=0.25, zorder=2)
    else:
        fill, edge = (style.GREYED, style.MUTED) if step.unclaimed else (color, color)
        ax.barh(row, step.stop - step.start, left=step.start, height=0.58, color=fill, edgecolor=edge, linewidth=0.6,
                zorder=3)  # fmt: skip
    if step.low is not None and step.high is not None:
        ax.plot([step.low, step.high], [row, row], color=style.INK, linewidth=0.9, zorder=5)
    if following is not None and not (step.total and row):
        ax.plot([step.stop, step.stop], [row, row + 1], color=style.MUTED, linewidth=0.6, zorder=2)
    if step.total and not row:
        return
    right = max(x for x in (step.start, step.stop, step.high) if x is not None)
    ax.annotate(
        format_factor(step.factor), (right, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=6.5,
        color=style.MUTED if step.unclaimed else style.INK,
    )  # fmt: skip
