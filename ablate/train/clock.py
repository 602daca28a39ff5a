"""A training on a device -> seconds of its epochs and steps: by the host's clock, steps on a GPU by the device's own.

The host does not wait for a GPU within an epoch. It gives each step away and goes on, so that its clock tells when a
step was given away, not when it was done. One event per step tells that, and is read when the epoch is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import lightning
import torch

from ablate.core.record import Times

SECONDS_PER_MILLISECOND = 1e-3


class Event(Protocol):
    """What is used of `torch.cuda.Event`."""

    def record(self) -> None:
        """Mark this moment in what the device was given."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from here to another event; both have happened."""


def cuda_event() -> Event:
    """An event of the current device that takes the time."""
    event: Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


class StepClock:
    """Takes the time of every step without waiting for the device.

    Args:
        make_event: Makes an event of the device; None where the host does the work itself.

    Attributes:
        starts_s: When each epoch began, by the host's clock.
    """

    def __init__(self, make_event: Callable[[], Event] | None) -> None:
        self._make_event = make_event
        self._events: list[Event] = []
        self._device_s: list[float] = []
        self._host_s: list[float] = []
        self._last_s = 0.0
        self.starts_s: list[float] = []

    @property
    def num_ended(self) -> int:
        """Steps that ended so far."""
        return len(self._host_s)

    def epoch_started(self) -> None:
        """Begin the first step of an epoch; the device is idle."""
        self._mark()
        self._last_s = time.perf_counter()
        self.starts_s.append(self._last_s)

    def step_ended(self) -> None:
        """End a step and begin the next one."""
        self._mark()
        now_s = time.perf_counter()
        self._host_s.append(now_s - self._last_s)
        self._last_s = now_s

    def epoch_ended(self) -> None:
        """Read the events; the device has done all of them."""
        pairs = zip(self._events, self._events[1:], strict=False)
        self._device_s += [start.elapsed_time(end) * SECONDS_PER_MILLISECOND for start, end in pairs]
        self._events.clear()

    @property
    def step_s(self) -> list[float]:
        """Seconds of each step, from the end of the one before or the start of its epoch, by the clock that did it."""
        return list(self._host_s if self._make_event is None else self._device_s)

    @property
    def host_step_s(self) -> list[float] | None:
        """The same by the host's clock, where that only gives steps away; None where it is `step_s` itself."""
        return None if self._make_event is None else list(self._host_s)

    def _mark(self) -> None:
        if self._make_event is not None:
            self._events.append(self._make_event())
            self._events[-1].record()


def warm_up(device: torch.device) -> None:
    """Start what a process has to start once on a GPU, so that it is in no arm's first epoch.

    That is CUDA itself, the handles of its libraries for matrix products (in the threads of forward and backward) and
    convolutions, and the allocator. Nothing random is drawn, no model is touched. What only the model's own kernels
    need is still loaded when they first run.
    """
    if device.type == "cuda":
        exercise(device)
        torch.cuda.synchronize(device)


def exercise(device: torch.device) -> None:
    """A product and a convolution, forward and backward, and an update of many tensors at once, all in float32."""
    weight = torch.ones(64, 64, device=device, requires_grad=True)
    images = torch.ones(1, 8, 8, 8, device=device)
    filters = torch.ones(8, 8, 3, 3, device=device, requires_grad=True)
    loss = (weight @ weight).relu().sum() + torch.nn.functional.conv2d(images, filters).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    torch._foreach_add([weight.detach(), filters.detach()], 1.0)


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished everything that was given to it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class EpochClock(lightning.Callback):
    """Times each epoch, synchronized at its ends only: a wait per step would erase what is measured.

    Args:
        device: Device of the training.
        steps: Takes the time of every step; its start of an epoch is the clock's.
        on_epoch: Called outside the timed part with (epoch, seconds).
    """

    def __init__(self, device: torch.device, steps: StepClock, on_epoch: Callable[[int, float], None]) -> None:
        self._device, self.steps, self._on_epoch = device, steps, on_epoch
        self.epoch_s: list[float] = []
        self.mean_losses: list[float] = []

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        pl_module.running_loss.reset()  # type: ignore[union-attr, operator]
        synchronize(self._device)
        self.steps.epoch_started()

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        synchronize(self._device)
        self.epoch_s.append(time.perf_counter() - self.steps.starts_s[-1])
        self.steps.epoch_ended()
        self.mean_losses.append(pl_module.running_loss.compute())  # type: ignore[union-attr, operator]
        self._on_epoch(trainer.current_epoch, self.epoch_s[-1])


def summarize_times(
    epoch_s: Sequence[float],
    compile_steps: Sequence[int],
    steps_per_epoch: int,
    horizon_epochs: int,
    compile_s: float,
    wait_s: Sequence[float],
    steps: StepClock,
) -> Times:
    """Sort steps into epochs, and find the steady ones: those after the first in which nothing compiled.

    Args:
        epoch_s: Seconds per epoch, compilation included.
        compile_steps: Step of each compile event.
        wait_s: Seconds waited for each batch, one per step.
        steps: Took the time of every step.
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
        first_step_s=steps.step_s[0],
        step_clock="host" if steps.host_step_s is None else "device",
    )
