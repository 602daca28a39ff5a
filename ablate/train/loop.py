"""Parts, forward, stepper -> a LightningModule that records every step."""

import signal
from collections.abc import Callable
from typing import Any

import lightning
import torch
from torch import Tensor

from ablate.train.clock import StepClock
from ablate.train.optimizer import Stepper
from ablate.train.parts import Parts
from ablate.train.running_loss import make_running_loss
from ablate.workloads.contract import Forward


class TrainingModule(lightning.LightningModule):
    """Trains the inner module of a workload, which is kept out of the module tree.

    Lightning moves what is in the tree to the host when a training ends: the weights would leave their device and the
    addresses that compiled code knows.

    Args:
        parts: Model, loss and copies of a batch; metric and copy policies.
        forward: The inner module, compiled or not.
        stepper: Optimizer, schedule and step.
        num_steps: Steps of the whole trial.
        steps: Takes the time of every step.
        note: Called with (step, function, batch) after `forward` with its backward pass, and after `optimizer_step`.
    """

    def __init__(
        self,
        parts: Parts,
        forward: Forward,
        stepper: Stepper,
        num_steps: int,
        steps: StepClock,
        note: Callable[[int, str, Any], None],
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self._parts, self._stepper, self._note = parts, stepper, note
        self._forward = (forward,)
        self.num_steps, self.steps = num_steps, steps
        self._losses = torch.full((num_steps,), float("nan"), device=parts.device)
        self.running_loss = make_running_loss(parts.recipe, parts.device)
        self.learning_rates: list[Any] = []

    @property
    def forward_function(self) -> Forward:
        """The inner module as the cell runs it."""
        return self._forward[0]

    def configure_optimizers(self) -> None:
        """The stepper owns the optimizer, so that Lightning neither wraps nor traces it."""

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return self._parts.move(batch, non_blocking=self._parts.recipe.copy_policy == "non-blocking")

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """One optimizer update and bookkeeping that never reads the device."""
        step = self.steps.num_ended
        loss = self.compute_loss(batch)
        self.differentiate(loss, batch, step)
        self.learning_rates.append(self._stepper.learning_rate())
        self.update(batch, step)
        self._losses[step].copy_(loss.detach(), non_blocking=True)
        self.running_loss.update(loss, self._parts.workload.num_samples(batch))
        self.steps.step_ended()

    def compute_loss(self, batch: Any) -> Tensor:
        """Forward pass of a batch on the device, without gradients left from the step before; returns the loss."""
        self._stepper.optimizer.zero_grad(set_to_none=True)
        return self._parts.loss(self._forward[0], batch)

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


class PlainSignals(lightning.Callback):
    """Gives SIGTERM back its default: Lightning would end the process with exit code 0 and no record."""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
