"""The modules of this folder -> the figures of a report, in order; a figure is one file.

A figure module has
    TITLE: str, ORDER: int, PANELS: int (at most, side by side)
    info(results, workload) -> numbers of the figure, or None when there is nothing to show
    panels(info) -> number of panels used
    height_in(info) -> height in inches
    draw(info, axes) -> None
    describe(info) -> alternative text
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any, Protocol, cast

from matplotlib.axes import Axes

import ablate.figures as folder
from ablate.analysis.results import Results

NOT_FIGURES = ("registry", "render", "style")


class FigureModule(Protocol):
    """What a figure file offers."""

    TITLE: str
    ORDER: int

    def info(self, results: Results, workload: str) -> Any: ...

    def panels(self, info: Any) -> int: ...

    def height_in(self, info: Any) -> float: ...

    def draw(self, info: Any, axes: Sequence[Axes]) -> None: ...

    def describe(self, info: Any) -> str: ...


def figure_modules() -> dict[str, FigureModule]:
    """Every figure of the folder by name (file name with dashes), in reading order."""
    names = sorted(m.name for m in pkgutil.iter_modules(folder.__path__) if m.name not in NOT_FIGURES)
    modules = {
        name.replace("_", "-"): cast(FigureModule, importlib.import_module(f"{folder.__name__}.{name}"))
        for name in names
    }
    return dict(sorted(modules.items(), key=lambda item: item[1].ORDER))
