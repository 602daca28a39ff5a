"""Ledger of a workload -> where the horizon of every arm goes: compilation, waiting for batches, training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes

from ablate.analysis.results.speed import LedgerBar
from ablate.analysis.results.study import WorkloadResults
from ablate.core.units import format_duration
from ablate.figures import style

TITLE = "Where the time of the horizon goes"
ORDER = 60
COLORS = (style.COLORS[0], style.COLORS[8], style.COLORS[3])
PARTS = ("training", "waiting for batches", "compilation")
OVERLAPPED = ("training, at least", "waiting for batches, at most", "compilation")  # a GPU works while the host waits


@dataclass(frozen=True, kw_only=True)
class Info(style.Info[LedgerBar]):
    """A panel for cold and one for warm compile caches, as far as measured."""

    horizon_epochs: int

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of a bar, in order."""
        return OVERLAPPED if any(bar.overlaps for panel in self.panels for bar in panel.rows) else PARTS


panels = style.num_panels
height_in = partial(style.height_of_rows, head_in=1.15)


def info(result: WorkloadResults) -> Info | None:
    """Collect the bars; None when no trial of the workload has a horizon."""
    bars = {cache: tuple(b for b in result.speed.ledger if b.cache == cache) for cache in ("cold", "warm")}
    found = tuple(style.Panel(title=f"{cache} compile caches", rows=rows) for cache, rows in bars.items() if rows)
    return Info(workload=result.name, horizon_epochs=result.speed.horizon_epochs, panels=found) if found else None


def draw(info: Info, axes: Sequence[Axes]) -> None:
    """Stacked bars, one per arm, with the horizon written at the end."""
    longest = max(bar.horizon_s for panel in info.panels for bar in panel.rows)
    for index, (ax, panel) in enumerate(zip(axes, info.panels, strict=False)):
        rows = range(len(panel.rows))
        left = [0.0] * len(panel.rows)
        for index_of_part, (part, color) in enumerate(zip(info.parts, COLORS, strict=True)):
            seconds = [_seconds(bar)[index_of_part] for bar in panel.rows]
            ax.barh(rows, seconds, left=left, height=0.62, color=color, label=part)
            left = [start + width for start, width in zip(left, seconds, strict=True)]
        for row, bar in enumerate(panel.rows):
            ax.annotate(format_duration(bar.horizon_s), (left[row], row), xytext=(4, 0), textcoords="offset points",
                        va="center", fontsize=6.5, in_layout=False)  # fmt: skip
        style.name_rows(ax, [bar.arm for bar in panel.rows], first=not index)
        ax.set_xlim(0, 1.22 * longest if longest > 0 else 1)
        style.finish(ax, panel.title, f"seconds for {info.horizon_epochs} epochs")
    handles, names = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, names, loc="outside lower center", ncols=len(PARTS), frameon=False)


def describe(info: Info) -> str:
    """The three parts of every bar, in words."""
    parts = [
        f"{bar.arm} ({bar.cache}): "
        + ", ".join(f"{part} {format_duration(s)}" for part, s in zip(info.parts, _seconds(bar), strict=True))
        for panel in info.panels
        for bar in panel.rows
    ]
    return f"Time ledger of {info.workload} over {info.horizon_epochs} epochs. " + "; ".join(parts) + "."


def _seconds(bar: LedgerBar) -> tuple[float, float, float]:
    return bar.training_s, bar.loader_wait_s, bar.compile_s
