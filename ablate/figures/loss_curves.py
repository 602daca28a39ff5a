"""Loss curves of timed trials -> losses per step with the margin, and the distance from eager of the same block."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.results.training import Curve
from ablate.figures import style

TITLE = "Loss of the timed trials, and its distance from eager (dropout masks are not aligned here)"
ORDER = 50
MOST_ARMS = 8
FIRST = ("eager", "naive", "full")
FLOOR = 1e-12


@dataclass(frozen=True, kw_only=True)
class Info:
    """The curves drawn, how many more there are, and the margin of the spec (None where it has none)."""

    workload: str
    curves: tuple[Curve, ...]
    num_hidden: int
    margin: float | None = None


def info(result: WorkloadResults) -> Info | None:
    """Choose eager, naive, full and the next arms of the design, at most eight."""
    curves = [c for c in result.training.curves if style.finite(c.loss)]
    ranked = sorted(curves, key=lambda c: FIRST.index(c.arm) if c.arm in FIRST else len(FIRST))
    shown = tuple(ranked[:MOST_ARMS])
    if not shown:
        return None
    return Info(workload=result.name, curves=shown, num_hidden=len(curves) - len(shown), margin=result.training.margin)


def panels(info: Info) -> int:
    return 2


def height_in(info: Info) -> float:
    return 2.75


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """Left: mean over blocks with the range over blocks; the margin around eager. Right: largest relative deviation."""
    losses, distances = axes[0], axes[1]
    eager = next((curve for curve in info.curves if curve.arm == "eager"), None)
    if eager is not None and info.margin is not None:
        low, high = ([value + sign * info.margin for value in _or_nan(eager.loss)] for sign in (-1, 1))
        losses.fill_between(eager.steps, low, high, color=style.GREYED, alpha=0.6, linewidth=0,
                            label=f"eager ± margin {info.margin:g}")  # fmt: skip
    for index, curve in enumerate(info.curves):
        color = style.REFERENCE if curve.arm == "eager" else style.COLORS[index % len(style.COLORS)]
        width = 1.8 if curve.arm == "eager" else 1.0
        loss, low, high = (_or_nan(values) for values in (curve.loss, curve.low, curve.high))
        losses.plot(curve.steps, loss, color=color, linewidth=width, label=style.label(curve.arm))
        losses.fill_between(curve.steps, low, high, color=color, alpha=0.12, linewidth=0)
        if curve.arm != "eager" and style.finite(curve.deviation):
            shown = [max(value, FLOOR) if value == value else value for value in _or_nan(curve.deviation)]
            distances.plot(curve.steps, shown, color=color, linewidth=1.0, label=style.label(curve.arm))
    losses.legend(frameon=False, loc="upper right", handlelength=1.4)
    if info.num_hidden:
        losses.text(0.0, -0.24, f"{info.num_hidden} more arms are in the tables", transform=losses.transAxes,
                    color=style.MUTED, fontsize=6.5)  # fmt: skip
    style.finish(losses, "training loss", "step", grid="y")
    _finish_distances(info, distances)


def describe(info: Info) -> str:
    """Last loss and largest deviation of every arm, in words."""
    parts = []
    for curve in info.curves:
        deviations = style.finite(curve.deviation)
        text = f"{curve.arm} ends at {style.finite(curve.loss)[-1]:.4g}"
        parts.append(text + (f", at most {max(deviations):.2g} from eager" if deviations else ""))
    return f"Loss curves of {info.workload}: " + "; ".join(parts) + "."


def _finish_distances(info: Info, ax: Axes) -> None:
    values = style.finite(v for c in info.curves if c.arm != "eager" for v in c.deviation)
    if not values:
        style.note(ax, "no arm has an eager trial in its block")
        ax.set_xticks([])
        ax.set_yticks([])
    elif max(values) == 0:
        style.note(ax, "every loss is bitwise equal to eager")
        ax.set_yticks([])
    else:
        style.log_axis(ax)
        ax.set_ylim(max(min(v for v in values if v > 0), FLOOR) / 3, max(values) * 3)
    style.finish(ax, "relative deviation from eager", "step", grid="y")


def _or_nan(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
