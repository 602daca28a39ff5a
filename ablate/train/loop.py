"""Parts, forward, stepper -> a LightningModule that records every step, and the clock of its epochs."""

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import lightning
import torch
from torch import Tensor

from ablate.core.record import Times
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
        note: Called with (step, function, batch) after `forward` with its backward pass, and after `optimizer_step`.
    """

    def __init__(
        self, parts: Parts, forward: Forward, stepper: Stepper, num_steps: int, note: Callable[[int, str, Any], None]
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self._parts, self._stepper, self._note = parts, stepper, note
        self._forward = (forward,)
        self.num_steps = num_steps
        self._losses = torch.full((num_steps,), float("nan"), device=parts.device)
        self.running_loss = make_running_loss(parts.recipe, parts.device)
        self.learning_rates: list[Any] = []
        self.step_ends_s: list[float] = []

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
        step = len(self.step_ends_s)
        loss = self.compute_loss(batch)
        self.differentiate(loss, batch, step)
        self.learning_rates.append(self._stepper.learning_rate())
        self.update(batch, step)
        self._losses[step].copy_(loss.detach(), non_blocking=True)
        self.running_loss.update(loss, self._parts.workload.num_samples(batch))
        self.step_ends_s.append(time.perf_counter())

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


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished everything that was given to it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class PlainSignals(lightning.Callback):
    """Gives SIGTERM back its default: Lightning would end the process with exit code 0 and no record."""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class EpochClock(lightning.Callback):
    """Times each epoch, synchronized at its ends only: a wait per step would erase what is measured.

    Args:
        device: Device of the training.
        on_epoch: Called outside the timed part with (epoch, seconds).
    """

    def __init__(self, device: torch.device, on_epoch: Callable[[int, float], None]) -> None:
        self._device, self._on_epoch = device, on_epoch
        self.starts_s: list[float] = []
        self.epoch_s: list[float] = []
        self.mean_losses: list[float] = []

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        pl_module.running_loss.reset()  # type: ignore[union-attr, operator]
        synchronize(self._device)
        self.starts_s.append(time.perf_counter())

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        synchronize(self._device)
        self.epoch_s.append(time.perf_counter() - self.starts_s[-1])
        self.mean_losses.append(pl_module.running_loss.compute())  # type: ignore[union-attr, operator]
        self._on_epoch(trainer.current_epoch, self.epoch_s[-1])


def summarize_times(
    epoch_s: Sequence[float],
    compile_steps: Sequence[int],
    steps_per_epoch: int,
    horizon_epochs: int,
    compile_s: float,
    wait_s: Sequence[float],
    first_step_s: float,
) -> Times:
    """Sort steps into epochs, and find the steady ones: those after the first in which nothing compiled.

    Args:
        epoch_s: Seconds per epoch, compilation included.
        compile_steps: Step of each compile event.
        wait_s: Seconds waited for each batch, one per step.
    """
    compiling = {step // steps_per_epoch for step in compile_steps}
    steady_epochs = tuple(e for e in range(1, len(epoch_s)) if e not in compiling)
    waits = [sum(wait_s[e * steps_per_epoch : (e + 1) * steps_per_epoch]) for e in range(len(epoch_s))]
    return Times(
        epoch_s=tuple(epoch_s),
        steady_epochs=steady_epochs,
        horizon_epochs=horizon_epochs,
        compile_s=compile_s,
        loader_wait_s=tuple(waits),
        first_step_s=first_step_s,
    )
