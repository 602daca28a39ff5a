"""A ready session and windows of steps -> losses, gradients, rates, weights and masks of every step, comparable bit by
bit between cells: the same weights, batches and dropout masks wherever a window starts.

Eager trains the whole trajectory and leaves a checkpoint before each window; it also repeats each window unperturbed
(is it deterministic?) and from weights moved by one ulp (how far does its own rounding carry?). An arm trains each
window from eager's checkpoint. The steps are those of `TrainingModule`, so what trains here is what is timed elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablate.core.errors import TrialError
from ablate.core.record import ParityWindow
from ablate.records.store import PARITY_COLUMNS
from ablate.train.parity.checkpoint import Checkpoint, take_checkpoint
from ablate.train.parity.steps import Masks, Row, Span, StepTrainer
from ablate.train.session import Session
from ablate.train.stream import hash_checksums
from ablate.workloads.contract import Predictions

EAGER, REPEAT, ULP, ARM = "eager", "repeat", "ulp", "arm"


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
        return {name: [getattr(row, name) for row in self.rows] for name in PARITY_COLUMNS}

    def predicted(self) -> dict[str, list[Any]]:
        """Columns of `predictions.parquet`."""
        return predictions_columns(self.predictions)

    def predict(self, session: Session, run: str) -> None:
        """Add a run's predictions of the validation split, as a timed trial makes them at its end."""
        predictions = session.predict()
        if predictions is not None:
            self.predictions[run] = predictions

    def first_bad(self, run: str) -> Row | None:
        """The first step of a run whose loss is not finite."""
        return next((row for row in self.rows if row.run == run and not math.isfinite(row.loss)), None)


def make_spans(starts: Sequence[int], window_steps: int, num_steps: int) -> tuple[Span, ...]:
    """Windows of `window_steps` steps that end with the training, which has `num_steps`."""
    return tuple(Span(start=start, num_steps=min(window_steps, num_steps - start)) for start in starts)


def train_reference(
    session: Session,
    spans: Sequence[Span],
    *,
    seed: int,
    reruns: int,
    keep: Callable[[Checkpoint], object] = lambda checkpoint: None,
) -> ParityRuns:
    """Train eager's trajectory from its initial weights, then its reruns of every window.

    Args:
        session: An eager session that has not trained.
        spans: The windows.
        seed: Seed of the block.
        reruns: How many reruns from perturbed weights per window.
        keep: Called with the checkpoint before each window as soon as there is one.

    Raises:
        TrialError: the loss was not finite before the first window.
    """
    runs, trainer = ParityRuns(deterministic=True), StepTrainer(session, seed)
    trajectory: dict[int, Row] = {}
    checksums: dict[int, int] = {}
    for step in range(max(span.start + span.num_steps for span in spans)):
        if any(span.start == step for span in spans):
            runs.checkpoints[step] = take_checkpoint(trainer.model, session.stepper.optimizer, step)
            keep(runs.checkpoints[step])
        trajectory[step], checksums[step] = trainer.train_step(step)
        if not math.isfinite(trajectory[step].loss):
            break
        if step == spans[0].start + spans[0].num_steps - 1:
            runs.predict(session, EAGER)
    for span in spans:
        steps = [step for step in span if step in trajectory]
        if not steps:
            continue  # the loss was not finite before this window
        runs.rows += [replace(trajectory[step], run=EAGER, window=span.start) for step in steps]
        masks = _eager_masks(session, runs.rows[-1])
        runs.windows.append(_window(span, [checksums[step] for step in steps], masks, ""))
        for number in range(reruns + 1):
            run = f"{ULP}-{number}" if number else REPEAT
            trained = _rerun(trainer, runs.checkpoints[span.start], span, run, number)
            if run == REPEAT:
                eager = runs.rows[-len(steps) :]
                runs.deterministic = runs.deterministic and are_bitwise_equal(trained, eager)
            runs.rows += trained
            if span is spans[0] and math.isfinite(trained[-1].loss):
                runs.predict(session, run)
    if not runs.windows:
        raise TrialError(f"eager's loss is {trajectory[step].loss} at step {step}, before the first window")
    return runs


def train_arm(
    session: Session,
    spans: Sequence[Span],
    checkpoint_before: Callable[[int], Checkpoint],
    eager_masks: Mapping[tuple[int, int], int],
    *,
    seed: int,
) -> ParityRuns:
    """Train every window from eager's checkpoint, after looking whether its dropout masks are aligned.

    Where a step's masks are not eager's, that is looked at again in this step: its code may be another by then.

    Args:
        session: The arm, whatever it trained before.
        spans: The windows.
        checkpoint_before: Gives eager's checkpoint before a step.
        eager_masks: Checksums of eager's masks by window and step.
        seed: Seed of the block.
    """
    runs, trainer = ParityRuns(), StepTrainer(session, seed)
    for span in spans:
        checkpoint = checkpoint_before(span.start)
        trainer.restart(checkpoint)
        seen = None
        if session.module.forward_function is not session.workload.model:
            seen = trainer.compare_masks(span.start)
            trainer.restart(checkpoint)  # looking moved the running statistics of the batch norms
        rows, checksums = trainer.train_span(span, ARM)
        if span is spans[0] and math.isfinite(rows[-1].loss):
            runs.predict(session, ARM)
        other = next((row.step for row in rows if row.mask != eager_masks.get((span.start, row.step), row.mask)), None)
        if seen is not None and seen[0] == "aligned" and other is not None:
            seen = trainer.compare_masks(other)
        masks, note = seen or (_eager_masks(session, rows[0]), "")
        runs.rows += rows
        runs.windows.append(_window(span, checksums, masks, note))
    return runs


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


def _rerun(trainer: StepTrainer, checkpoint: Checkpoint, span: Span, run: str, number: int) -> list[Row]:
    """Train a window again from eager's checkpoint: number 0 as it is, others from perturbed weights."""
    trainer.restart(checkpoint)
    if number:
        trainer.nudge(span.start, number)
    return trainer.train_span(span, run)[0]


def _eager_masks(session: Session, row: Row) -> Masks:
    """Nothing is compiled, so what draws the masks is eager itself."""
    return "aligned" if row.mask or session.parts.drops else "no dropout"


def _window(span: Span, checksums: Sequence[int], masks: Masks, note: str) -> ParityWindow:
    return ParityWindow(
        start=span.start, num_steps=len(checksums), masks=masks, note=note, stream_hash=hash_checksums(checksums)
    )
