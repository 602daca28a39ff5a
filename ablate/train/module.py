"""Workload, forward, stepper -> LightningModule with manual optimization that records loss, rate and time per step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lightning
import torch
from torch import Tensor

from ablate.core.recipe import Recipe
from ablate.train.optimizer import Stepper
from ablate.train.running_loss import make_running_loss
from ablate.workloads.contract import Forward, Workload


def move_batch(batch: Any, device: torch.device, *, non_blocking: bool) -> Any:
    """Copy a batch (HeteroData, or a sequence of them) to the device."""
    if isinstance(batch, (tuple, list)):
        return tuple(part.to(device, non_blocking=non_blocking) for part in batch)
    return batch.to(device, non_blocking=non_blocking)


class TrainingModule(lightning.LightningModule):
    """Trains the inner module of a workload.

    Args:
        workload: Model and loss.
        forward: The inner module, compiled or not; kept out of the module tree so that weights keep their names.
        stepper: Optimizer, schedule and step.
        recipe: Metric and copy policies.
        num_steps: Steps of the whole trial.
        note: Called with (step, function, batch) after `forward` with its backward pass, and after `optimizer_step`.
    """

    def __init__(
        self,
        workload: Workload,
        forward: Forward,
        stepper: Stepper,
        recipe: Recipe,
        num_steps: int,
        device: torch.device,
        note: Callable[[int, str, Any], None],
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = workload.model
        self._workload, self._stepper, self._recipe, self._note = workload, stepper, recipe, note
        self._forward = (forward,)
        self._losses = torch.full((num_steps,), float("nan"), device=device)
        self.running_loss = make_running_loss(recipe, device)
        self.learning_rates: list[Any] = []
        self.step_ends_s: list[float] = []

    @property
    def forward_function(self) -> Forward:
        """The inner module as the cell runs it."""
        return self._forward[0]

    def configure_optimizers(self) -> None:
        """The stepper owns the optimizer, so that Lightning neither wraps nor traces it."""

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return move_batch(batch, device, non_blocking=self._recipe.copy_policy == "non-blocking")

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """One optimizer update and bookkeeping that never reads the device."""
        step = len(self.step_ends_s)
        loss = self.compute_loss(batch)
        self.differentiate(loss, batch, step)
        self.learning_rates.append(self._stepper.learning_rate())
        self.update(batch, step)
        self._losses[step].copy_(loss.detach(), non_blocking=True)
        self.running_loss.update(loss, num_seeds(batch))
        self.step_ends_s.append(time.perf_counter())

    def compute_loss(self, batch: Any) -> Tensor:
        """Forward pass of a batch on the device, without gradients left from the step before; returns the loss."""
        self._stepper.optimizer.zero_grad(set_to_none=True)
        return self._workload.loss(self._forward[0], batch)

    def differentiate(self, loss: Tensor, batch: Any, step: int) -> None:
        """Backward pass."""
        loss.backward()  # type: ignore[no-untyped-call]
        self._note(step, "forward", batch)

    def update(self, batch: Any, step: int) -> None:
        """Update the weights from the gradients, and set the next learning rate."""
        self._stepper.step()
        self._note(step, "optimizer_step", batch)
        self._stepper.advance_schedule()

    @property
    def losses(self) -> Tensor:
        """Loss per step, float32 (num_steps,), NaN where no step was made; on the CPU."""
        return self._losses.cpu()


def num_seeds(batch: Any) -> int:
    """Number of seeds of a batch (of its first part for a tuple)."""
    first = batch[0] if isinstance(batch, (tuple, list)) else batch
    return int(first[first.seed_type].batch_size)
