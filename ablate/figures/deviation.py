"""Parity trials of a workload -> relative deviation of each arm's loss from eager's against eager's own rounding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.results.training import Deviation
from ablate.analysis.statistics.envelope import FACTOR, FLOOR
from ablate.figures import style

TITLE = "Relative deviation of the loss from eager, same weights, batches and dropout masks"
ORDER = 52
MOST_ARMS = 7
MOST_WINDOWS = 4
FIRST = ("full", "naive")
LOWEST = 1e-9  # bitwise equal losses are drawn here


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One window: the arms drawn, the limit that tier 1 allows, and the step from which nothing is tested."""

    window: int
    curves: tuple[Deviation, ...]
    limit_steps: tuple[int, ...]
    limit: tuple[float, ...]
    untested_from: int | None


@dataclass(frozen=True, kw_only=True)
class Info:
    """The windows drawn, and how many arms are only in the tables."""

    workload: str
    panels: tuple[Panel, ...]
    num_hidden: int


panels = style.num_panels


def info(result: WorkloadResults) -> Info | None:
    """Choose full, naive, arms that leave the envelope and the next ones, at most seven."""
    rows = [d for d in result.training.deviations if d.steps]
    if not rows:
        return None
    beyond = {d.arm for d in rows if d.first_step is not None}
    names = list(dict.fromkeys(d.arm for d in rows))
    ranked = sorted(names, key=lambda arm: (arm not in FIRST, arm not in beyond))
    windows = sorted({d.window for d in rows})[:MOST_WINDOWS]
    panels = [_panel(window, [d for d in rows if d.window == window], ranked[:MOST_ARMS]) for window in windows]
    return Info(
        workload=result.name,
        panels=tuple(panel for panel in panels if panel.curves),
        num_hidden=len(names) - len(ranked[:MOST_ARMS]),
    )


def height_in(info: Info) -> float:
    return 2.9


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """Lines: arms, a cross where one leaves the envelope. Grey: ten times eager's own. Dotted: end of the test."""
    low, high = _range(info)
    colors: dict[str, str] = {}
    for panel, ax in zip(info.panels, axes, strict=True):
        style.log_axis(ax)
        ax.set_ylim(low, high)
        ax.fill_between(panel.limit_steps, low, panel.limit, color=style.GREYED, alpha=0.5, linewidth=0,
                        label="allowed: 10 x eager's own")  # fmt: skip
        if panel.untested_from is not None:
            ax.axvline(panel.untested_from, color=style.MUTED, linewidth=0.8, linestyle=":")
            ax.text(panel.untested_from, high / 1.5, " not tested", color=style.MUTED, fontsize=6.0, va="top")
        for curve in panel.curves:
            color = colors.setdefault(curve.arm, style.COLORS[len(colors) % len(style.COLORS)])
            ax.plot(curve.steps, _drawn(curve), color=color, linewidth=1.0, label=style.label(curve.arm))
            if curve.first_step is not None and curve.first_step in curve.steps:
                value = _drawn(curve)[curve.steps.index(curve.first_step)]
                finite = np.isfinite(value)  # else the mark is at the upper edge
                ax.plot([curve.first_step], [value if finite else 1.0], marker="x", markersize=4, color=color,
                        transform=ax.transData if finite else ax.get_xaxis_transform(), clip_on=False)  # fmt: skip
        style.finish(ax, f"from step {panel.window}", "step", grid="y")
    for ax in axes[1:]:
        ax.set_yticklabels([])
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=4, handlelength=1.2)
    if info.num_hidden:
        axes[0].text(0.0, -0.26, f"{info.num_hidden} more arms are in the tables", transform=axes[0].transAxes,
                     color=style.MUTED, fontsize=6.5)  # fmt: skip


def describe(info: Info) -> str:
    """Largest deviation of every arm in every window, and where it leaves the envelope."""
    parts = []
    for panel in info.panels:
        for curve in panel.curves:
            values = style.finite(curve.deviation[: curve.num_tested])
            text = f"{curve.arm} at most {max(values):.1e}" if values else f"{curve.arm} not tested"
            left = f", leaves the envelope at step {curve.first_step}" if curve.first_step is not None else ""
            parts.append(f"from step {panel.window} {text}{left}")
    return f"Deviation of the loss of {info.workload} from eager against the envelope: " + "; ".join(parts) + "."


def _panel(window: int, rows: Sequence[Deviation], arms: Sequence[str]) -> Panel:
    """The limit is the widest of the blocks drawn, so that no arm that passed lies outside; a cross marks others."""
    shown = sorted((d for d in rows if d.arm in arms), key=lambda d: arms.index(d.arm))
    limit: dict[int, float] = {}
    for curve in shown:
        for step, value in zip(curve.steps, curve.envelope, strict=True):
            if value is not None:
                limit[step] = max(limit.get(step, 0.0), FACTOR * value)
    ends = [window + d.num_tested for d in shown if d.num_tested < len(d.steps)]
    return Panel(
        window=window,
        curves=tuple(shown),
        limit_steps=tuple(sorted(limit)),
        limit=tuple(limit[step] for step in sorted(limit)),
        untested_from=min(ends) if ends else None,
    )


def _drawn(curve: Deviation) -> list[float]:
    return [float("nan") if value is None else max(value, LOWEST) for value in curve.deviation]


def _range(info: Info) -> tuple[float, float]:
    drawn = [value for panel in info.panels for curve in panel.curves for value in style.finite(_drawn(curve))]
    limits = [value for panel in info.panels for value in panel.limit]
    return min([*drawn, FACTOR * FLOOR]) / 2, max([*drawn, *limits, FACTOR * FLOOR]) * 20
