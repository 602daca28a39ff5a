"""Results -> an SVG per figure module of this folder and workload, with alternative texts in `figures.json`."""

import importlib
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from ablate.analysis.results.study import Results, WorkloadResults
from ablate.figures.style import WIDTH_IN, theme
from ablate.files.paths import StudyPaths
from ablate.records.store import write_json


class FigureModule(Protocol):
    """What a figure file offers: its numbers (`info`) apart from drawing them.

    Attributes:
        TITLE: Printed above the figure.
        ORDER: Place in the report.
    """

    TITLE: str
    ORDER: int

    def info(self, result: WorkloadResults) -> Any:
        """Numbers of the figure for one workload, as a frozen dataclass; None when there is nothing to show."""

    def panels(self, info: Any) -> int:
        """Number of axes side by side."""

    def height_in(self, info: Any) -> float:
        """Height in inches."""

    def draw(self, info: Any, axes: Sequence[Axes]) -> None:
        """Draw the numbers."""

    def describe(self, info: Any) -> str:
        """Text for readers who cannot see the figure."""


def figure_modules() -> dict[str, FigureModule]:
    """Load every module of this folder that defines `draw`, by name (file name with dashes), in reading order."""
    names = [
        path.stem
        for path in sorted(Path(__file__).parent.glob("*.py"))
        if "\ndef draw(" in path.read_text(encoding="utf-8")
    ]
    modules = {
        name.replace("_", "-"): cast(FigureModule, importlib.import_module(f"ablate.figures.{name}")) for name in names
    }
    return dict(sorted(modules.items(), key=lambda item: item[1].ORDER))


@dataclass(frozen=True, kw_only=True)
class RenderedFigure:
    """One SVG file (relative to the report folder), what it shows and for whom who cannot see it."""

    name: str
    figure: str
    workload: str
    title: str
    alt: str
    file: str


def render(paths: StudyPaths, results: Results) -> dict[str, Path]:
    """Draw every figure that has something to show; the same results give the same bytes.

    Args:
        paths: SVGs go to `figures/` in the report folder; files of an earlier drawing that are not drawn now go away.
        results: Numbers to draw.

    Returns:
        SVG file by name (`<figure>--<workload>`).
    """
    folder = paths.report / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    rendered: list[RenderedFigure] = []
    for figure, module in figure_modules().items():
        for index, result in enumerate(results.workloads):
            info = module.info(result)
            if info is None:
                continue
            name = f"{figure}--{_slug(result.name, index)}"
            files[name] = folder / f"{name}.svg"
            files[name].write_bytes(draw_svg(module, info))
            rendered.append(
                RenderedFigure(
                    name=name, figure=figure, workload=result.name, title=module.TITLE, alt=module.describe(info),
                    file=f"figures/{name}.svg",
                )
            )  # fmt: skip
    for stale in set(folder.glob("*.svg")) - set(files.values()):
        stale.unlink()
    write_json(folder / "figures.json", {"figures": rendered})
    return files


def draw_svg(module: FigureModule, info: Any) -> bytes:
    """Draw one figure into SVG bytes, with letters as outlines and nothing that depends on the time or the machine."""
    with mpl.rc_context(theme()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = Figure(figsize=(WIDTH_IN, module.height_in(info)), layout="constrained")
        canvas = FigureCanvasSVG(figure)
        axes = figure.subplots(1, module.panels(info), squeeze=False)[0]
        module.draw(info, list(axes))
        _lay_out(figure)
        stream = io.BytesIO()
        canvas.print_svg(stream, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return stream.getvalue()


def _lay_out(figure: Figure) -> None:
    """Lay the figure out once; `savefig` would draw everything a second time to do so."""
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine("none")


def _slug(workload: str, index: int) -> str:
    """File name of a workload; its place in the study keeps names apart that differ only in odd characters."""
    return f"{index}-{re.sub(r'[^A-Za-z0-9_.]+', '-', workload).strip('-.')[:48] or 'workload'}"
