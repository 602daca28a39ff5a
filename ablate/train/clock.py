"""Epoch boundaries and compile events -> the two times of a trial: steady epoch and horizon."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from statistics import median

import lightning
import torch

from ablate.core.record import Times


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
    """Work out steady and horizon time.

    A steady epoch is one after the first in which nothing compiled. Without one there is no steady state and no
    horizon: extrapolating an epoch that still compiles would be a guess.

    Args:
        epoch_s: Seconds per epoch, compilation included.
        compile_steps: Step of each compile event.
        wait_s: Seconds waited for each batch, one per step.
    """
    compiling = {step // steps_per_epoch for step in compile_steps}
    steady_epochs = tuple(e for e in range(1, len(epoch_s)) if e not in compiling)
    steady_s = median(epoch_s[e] for e in steady_epochs) if steady_epochs else None
    startup_s = None if steady_s is None else sum(epoch_s) - len(epoch_s) * steady_s
    waits = [sum(wait_s[e * steps_per_epoch : (e + 1) * steps_per_epoch]) for e in range(len(epoch_s))]
    return Times(
        epoch_s=tuple(epoch_s),
        steady_s=steady_s,
        steady_epochs=steady_epochs,
        startup_s=startup_s,
        horizon_s=None if steady_s is None or startup_s is None else startup_s + horizon_epochs * steady_s,
        horizon_epochs=horizon_epochs,
        compile_s=compile_s,
        loader_wait_s=tuple(waits),
        first_step_s=first_step_s,
    )
