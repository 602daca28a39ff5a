"""A session and a step -> that step trained as a parity trial needs it: what it recorded, the masks that it drew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from ablate.train.parity.checkpoint import Checkpoint, nudge_weights, restore_checkpoint
from ablate.train.parity.dropout_masks import MaskRecorder, checksum_tensors, describe_difference, join_checksums
from ablate.train.session import Session
from ablate.workloads.contract import Forward, checksum

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


def step_seed(seed: int, step: int) -> int:
    """What torch's generators are seeded with before a step, so that masks are the same wherever a window restarts."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class StepTrainer:
    """Trains single steps of a session as a parity trial needs them."""

    def __init__(self, session: Session, seed: int) -> None:
        self._session, self._seed = session, seed
        self.model = session.workload.model
        self._parameters = list(self.model.parameters())
        self.model.train()

    def restart(self, checkpoint: Checkpoint) -> None:
        """Put weights, optimizer state and schedule where eager was."""
        restore_checkpoint(checkpoint, self.model, self._session.stepper.optimizer)
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

    def _draw(self, forward: Forward, step: int) -> list[int]:
        session = self._session
        batch = session.module.transfer_batch_to_device(session.dataset[step], session.device, 0)
        torch.manual_seed(step_seed(self._seed, step))
        with MaskRecorder() as recorder:
            session.parts.loss(forward, batch)
        return recorder.checksums

    def _gradient_norm(self) -> float:
        squares = [p.grad.detach().double().square().sum() for p in self._parameters if p.grad is not None]
        return float(torch.stack(squares).sum().sqrt())
