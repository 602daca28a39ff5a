"""Windows of steps and what was recorded in them -> spans, rows, and the columns of what a parity trial stores."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ablate.core.record import ParityWindow
from ablate.records.store import PARITY
from ablate.train.parity.checkpoint import Checkpoint
from ablate.workloads.contract import Predictions

EAGER, REPEAT, ULP, ARM = "eager", "repeat", "ulp", "arm"
Masks = Literal["aligned", "not aligned", "no dropout"]


@dataclass(frozen=True, kw_only=True)
class Span:
    """A window: its first step and how many steps it trains."""

    start: int
    num_steps: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.start + self.num_steps))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One step of one run of one window; the columns of `parity.parquet`."""

    run: str
    window: int
    step: int
    loss: float
    grad_norm: float
    lr: float
    weights: int
    mask: int


@dataclass(kw_only=True)
class ParityRuns:
    """What the runs of a session left.

    Attributes:
        rows: Every step, in the order trained.
        windows: One entry per window.
        predictions: Validation predictions after the first window, by run.
        deterministic: Whether eager's unperturbed reruns were bitwise equal; None for an arm.
        checkpoints: Eager's, by the step that comes next; empty for an arm.
    """

    rows: list[Row] = field(default_factory=list)
    windows: list[ParityWindow] = field(default_factory=list)
    predictions: dict[str, Predictions] = field(default_factory=dict)
    deterministic: bool | None = None
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)

    def series(self) -> dict[str, list[Any]]:
        """Columns of `parity.parquet`."""
        return {name: [getattr(row, name) for row in self.rows] for name in PARITY.columns}

    def first_bad(self, run: str) -> Row | None:
        """The first step of a run whose loss is not finite."""
        return next((row for row in self.rows if row.run == run and not math.isfinite(row.loss)), None)


def make_spans(starts: Sequence[int], window_steps: int, num_steps: int) -> tuple[Span, ...]:
    """Windows of `window_steps` steps that end with the training, which has `num_steps`."""
    return tuple(Span(start=start, num_steps=min(window_steps, num_steps - start)) for start in starts)


def masks_of(rows: Iterable[Row]) -> dict[tuple[int, int], int]:
    """Checksums of eager's masks by window and step, from the rows of a reference."""
    return {(row.window, row.step): row.mask for row in rows if row.run == EAGER}


def are_bitwise_equal(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    """Whether two runs recorded the same losses (NaN included), gradient norms, rates, weights and masks."""
    first, second = (
        [(repr(r.loss), repr(r.grad_norm), r.lr, r.weights, r.mask) for r in side] for side in (rows, others)
    )
    return first == second


def predictions_columns(predictions: Mapping[str, Predictions]) -> dict[str, list[Any]]:
    """Columns of `predictions.parquet` from predictions by run."""
    columns: dict[str, list[Any]] = {"run": [], "row": [], "rank": [], "value": []}
    for run, predicted in predictions.items():
        values = predicted.columns()
        columns["run"] += [run] * len(values["row"])
        for name, array in values.items():
            columns[name] += array.tolist()
    return columns
