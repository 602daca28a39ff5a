"""A ready session and windows of steps -> losses, gradients, rates, weights and masks of every step, comparable bit by
bit between cells: the same weights, batches and dropout masks wherever a window starts.

Eager trains the whole trajectory and leaves a checkpoint before each window; it also repeats each window unperturbed
(is it deterministic?) and from weights moved by one ulp (how far does its own rounding carry?). An arm trains each
window from eager's checkpoint. The steps are those of `TrainingModule`, so what trains here is what is timed elsewhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from ablate.core.errors import TrialError
from ablate.core.record import ParityWindow
from ablate.train.parity.checkpoint import Checkpoint, nudge_weights, restore_checkpoint, take_checkpoint
from ablate.train.parity.dropout_masks import MaskRecorder, checksum_tensors, describe_difference, join_checksums
from ablate.train.parity.windows import ARM, EAGER, REPEAT, ULP, Masks, ParityRuns, Row, Span, are_bitwise_equal
from ablate.train.session import Session
from ablate.train.stream import hash_checksums
from ablate.workloads.contract import Forward, checksum


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
    runs, trainer = ParityRuns(deterministic=True), _Trainer(session, seed)
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
            trainer.predict(runs, EAGER)
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
                trainer.predict(runs, run)
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
    runs, trainer = ParityRuns(), _Trainer(session, seed)
    for span in spans:
        checkpoint = checkpoint_before(span.start)
        trainer.restart(checkpoint)
        seen = None
        if session.module.forward_function is not session.workload.model:
            seen = trainer.compare_masks(span.start)
            trainer.restart(checkpoint)  # looking moved the running statistics of the batch norms
        rows, checksums = trainer.train_span(span, ARM)
        if span is spans[0] and math.isfinite(rows[-1].loss):
            trainer.predict(runs, ARM)
        other = next((row.step for row in rows if row.mask != eager_masks.get((span.start, row.step), row.mask)), None)
        if seen is not None and seen[0] == "aligned" and other is not None:
            seen = trainer.compare_masks(other)
        masks, note = seen or (_eager_masks(session, rows[0]), "")
        runs.rows += rows
        runs.windows.append(_window(span, checksums, masks, note))
    return runs


def step_seed(seed: int, step: int) -> int:
    """What torch's generators are seeded with before a step, so that masks are the same wherever a window restarts."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class _Trainer:
    """Trains single steps of a session as a parity trial needs them."""

    def __init__(self, session: Session, seed: int) -> None:
        self._session, self._seed = session, seed
        self.model = session.workload.model
        self._parameters = list(self.model.parameters())
        self.model.train()

    def restart(self, checkpoint: Checkpoint) -> None:
        """Put weights, optimizer state and schedule where eager was."""
        compiled = self._session.recipe.step_compile is not None
        restore_checkpoint(checkpoint, self.model, self._session.stepper.optimizer, compiled=compiled)
        self._session.stepper.restart(checkpoint.step)

    def nudge(self, start: int, number: int) -> None:
        """Perturb the weights, differently in every block, window and rerun."""
        entropy = np.random.SeedSequence([self._seed, start, number]).generate_state(1, np.uint64)[0]
        nudge_weights(self.model, torch.Generator().manual_seed(int(entropy >> np.uint64(1))))

    def train_step(self, step: int, run: str = "", window: int = 0) -> tuple[Row, int]:
        """Train one step; returns what is recorded of it and the checksum of its batch."""
        session = self._session
        host_batch = session.dataset[step]
        batch = session.module.transfer_batch_to_device(host_batch, session.device, 0)
        lr = float(session.stepper.learning_rate())
        torch.manual_seed(step_seed(self._seed, step))
        with MaskRecorder() as recorder:
            loss = session.module.compute_loss(batch)
        session.module.differentiate(loss, batch, step)
        grad_norm = self._gradient_norm()
        session.module.update(batch, step)
        row = Row(
            run=run,
            window=window,
            step=step,
            loss=float(loss.detach()),
            grad_norm=grad_norm,
            lr=lr,
            weights=checksum_tensors(self.model.state_dict().values()),
            mask=join_checksums(recorder.checksums),
        )
        return row, checksum(session.workload, host_batch)

    def train_span(self, span: Span, run: str) -> tuple[list[Row], list[int]]:
        """Train a window; it ends early at a loss that is not finite."""
        rows, checksums = [], []
        for step in span:
            row, checksum = self.train_step(step, run, span.start)
            rows.append(row)
            checksums.append(checksum)
            if not math.isfinite(row.loss):
                break
        return rows, checksums

    def compare_masks(self, step: int) -> tuple[Masks, str]:
        """Whether the compiled forward draws the masks of the same module uncompiled: the mechanism, not the outcome.

        A change that draws no mask, or always the same, does so in both: its masks are aligned, and its recorded series
        departs from eager's.
        """
        session = self._session
        plain = self._draw(self.model, step)
        without = not plain and not session.parts.drops
        if session.recipe.forward_mode == "reduce-overhead" and session.device.type == "cuda":
            hidden = "a replayed CUDA Graph draws its masks where they cannot be seen"
            return ("no dropout", "") if without else ("not aligned", hidden)
        forward: Forward = session.module.forward_function
        problem = describe_difference(self._draw(forward, step), plain)
        if problem:
            return "not aligned", f"{problem}, at step {step}"
        return ("no dropout" if without else "aligned"), ""

    def predict(self, runs: ParityRuns, run: str) -> None:
        """Add a run's predictions of the validation split, as a timed trial makes them at its end."""
        predictions = self._session.predict()
        if predictions is not None:
            runs.predictions[run] = predictions

    def _draw(self, forward: Forward, step: int) -> list[int]:
        session = self._session
        batch = session.module.transfer_batch_to_device(session.dataset[step], session.device, 0)
        torch.manual_seed(step_seed(self._seed, step))
        recorder = MaskRecorder()
        with recorder:
            session.parts.loss(forward, batch)
        return recorder.checksums

    def _gradient_norm(self) -> float:
        squares = [p.grad.detach().double().square().sum() for p in self._parameters if p.grad is not None]
        return float(torch.stack(squares).sum().sqrt())


def _rerun(trainer: _Trainer, checkpoint: Checkpoint, span: Span, run: str, number: int) -> list[Row]:
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
