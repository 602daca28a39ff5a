"""The modules of this folder -> the figures of a report, in reading order; a figure is one file with a `draw`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from matplotlib.axes import Axes

from ablate.analysis.results.study import WorkloadResults


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
