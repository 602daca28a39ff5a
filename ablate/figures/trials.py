"""Trials of a workload -> every one as a dot, for both times, by cell; what did not complete is marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ablate.analysis.results.quality import TrialRow
from ablate.analysis.results.study import WorkloadResults
from ablate.core.units import grouped
from ablate.figures import style

TITLE = "Every trial"
ORDER = 70
MOST_ROWS = 40
SPREAD = 0.16


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One trial in one panel."""

    row: int
    block: int
    seconds: float
    filled: bool


@dataclass(frozen=True, kw_only=True)
class Info:
    """The cells (rows), their dots, how many trials of each did not complete, and how many cells are not drawn."""

    workload: str
    names: tuple[str, ...]
    missing: tuple[int, ...]
    blocks: tuple[int, ...]
    panels: tuple[style.Panel[Dot], ...]
    num_hidden: int


panels = style.num_panels


def info(result: WorkloadResults) -> Info | None:
    """Collect the trials of a workload in the order of the design; None when nothing was planned."""
    trials = result.quality.trials
    arms = {a.effective_key: i for i, a in enumerate(result.speed.arms)}
    keys = sorted({t.effective_key: t for t in trials}.items(), key=lambda kt: (arms.get(kt[0], len(arms)), kt[1].name))
    if not keys:
        return None
    rows = {key: row for row, (key, _) in enumerate(keys[:MOST_ROWS])}
    shown = [t for t in trials if t.effective_key in rows]
    times = {
        "steady epoch": [_dot(rows, t, t.steady_s) for t in shown],
        f"horizon of {result.speed.horizon_epochs} epochs": [_dot(rows, t, t.horizon_s) for t in shown],
    }
    return Info(
        workload=result.name,
        names=tuple(trial.name for _, trial in keys[:MOST_ROWS]),
        missing=tuple(sum(t.effective_key == key and t.missing for t in shown) for key in rows),
        blocks=tuple(sorted({t.block for t in trials})),
        panels=tuple(style.Panel(title=title, rows=tuple(filter(None, dots))) for title, dots in times.items()),
        num_hidden=max(len(keys) - MOST_ROWS, 0),
    )


def height_in(info: Info) -> float:
    return 1.2 + 0.2 * len(info.names)


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """Color is the block; a ring is eager or a cold cache, a filled dot a warm one, a cross did not complete."""
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        alike = grouped(((dot.block, dot.filled), dot) for dot in panel.rows)  # one artist draws them all
        for (block, is_filled), dots in alike.items():
            color, offset = _color(info, block), _offset(info, block)
            ax.plot([dot.seconds for dot in dots], [dot.row + offset for dot in dots], marker="o", markersize=3.8,
                    linestyle="", color=color, markerfacecolor=color if is_filled else "white",
                    markeredgewidth=0.9)  # fmt: skip
        style.name_rows(ax, info.names, first=not index)
        low, high = _extent(panel)
        ax.set_xlim(low, high)
        for row, count in enumerate(info.missing):
            if count:
                ax.annotate(f"✕ {count}", (low, row), xytext=(3, 0), textcoords="offset points", va="center",
                            color=style.SLOWER, fontsize=6.5)  # fmt: skip
        style.finish(ax, panel.title, "seconds")
    axes[0].figure.legend(
        handles=_legend(info), loc="outside lower center", ncols=min(len(info.blocks) + 2, 7), frameon=False
    )


def describe(info: Info) -> str:
    """Range of the dots of both panels and number of trials that did not complete, in words."""
    parts = []
    for panel in info.panels:
        seconds = [dot.seconds for dot in panel.rows]
        parts.append(
            f"{panel.title}: {len(seconds)} trials"
            + (f" from {min(seconds):.4g} s to {max(seconds):.4g} s" if seconds else "")
        )
    text = f"Every trial of {info.workload} as a dot, by cell. " + "; ".join(parts) + "."
    return text + (f" {sum(info.missing)} trials did not complete." if sum(info.missing) else "")


def _dot(rows: dict[str, int], trial: TrialRow, seconds: float | None) -> Dot | None:
    if not trial.completed or not style.finite([seconds]):
        return None
    assert seconds is not None
    return Dot(row=rows[trial.effective_key], block=trial.block, seconds=seconds, filled=trial.cache == "warm")


def _extent(panel: style.Panel[Dot]) -> tuple[float, float]:
    """Range of the axis: the dots with room beside them (dots, unlike bars, need no zero)."""
    seconds = [dot.seconds for dot in panel.rows] or [0.0, 1.0]
    pad = max(0.08 * (max(seconds) - min(seconds)), 0.01 * max(seconds))
    return max(min(seconds) - 2 * pad, 0.0), max(seconds) + pad


def _offset(info: Info, block: int) -> float:
    """Spread blocks over the height of a row."""
    count = len(info.blocks)
    return 0.0 if count < 2 else SPREAD * (2 * info.blocks.index(block) / (count - 1) - 1)


def _color(info: Info, block: int) -> str:
    return style.COLORS[info.blocks.index(block) % len(style.COLORS)]


def _legend(info: Info) -> list[Line2D]:
    handles = [
        Line2D([], [], marker="o", linestyle="", markersize=4, color=_color(info, block), label=f"block {block}")
        for block in info.blocks[:10]
    ]
    ring = {"marker": "o", "linestyle": "", "markersize": 4, "color": style.INK}
    handles.append(Line2D([], [], markerfacecolor="white", label="eager or cold cache", **ring))  # type: ignore[arg-type]
    handles.append(Line2D([], [], label="warm cache", **ring))  # type: ignore[arg-type]
    return handles
