"""Parameters and a recipe -> optimizer and schedule -> the function that makes one optimizer step."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ablate.core.recipe import Recipe
from ablate.core.study import Training

CUDA_ONLY = ("capturable",)  # arguments that a CPU does not take
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@dataclass(frozen=True, kw_only=True)
class Stepper:
    """What the trainer calls after the backward pass.

    Attributes:
        optimizer: Holds parameters and learning rate.
        step: Updates the parameters; compiled when the recipe says so.
        advance_schedule: Sets the next learning rate.
        first_rate: Learning rate of step 0.
        scheduler: What advances the rate; None where it is constant.
    """

    optimizer: torch.optim.Optimizer
    step: Callable[[], None]
    advance_schedule: Callable[[], None]
    first_rate: float
    scheduler: torch.optim.lr_scheduler.LambdaLR | None = None

    def restart(self, step: int) -> None:
        """Put the schedule where it is before a step."""
        if self.scheduler is not None:
            restart_schedule(self.scheduler, step)

    def rewind_rate(self) -> None:
        """Set the learning rate of step 0 again, in the object that is there.

        A schedule may end at 0, where the compiled step of Adam divides by it and makes NaN.
        """
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(self.first_rate)
            else:
                group["lr"] = self.first_rate

    def learning_rate(self) -> Any:
        """The current rate as a float, or a copy of the tensor (reading a device tensor would stall the device)."""
        rate = self.optimizer.param_groups[0]["lr"]
        if isinstance(rate, torch.Tensor):
            return float(rate) if rate.device.type == "cpu" else rate.detach().clone()
        return float(rate)


def restart_schedule(scheduler: torch.optim.lr_scheduler.LambdaLR, step: int) -> None:
    """Put a schedule where it is before a step: its position, and the rate in the object that is there.

    The scheduler computes the rate itself, so it is bitwise the one of a training that got there step by step.
    """
    scheduler.last_epoch = step - 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*optimizer.step.*", category=UserWarning)  # none was made yet
        scheduler.step()


def schedule_factor(schedule: str, step: int, num_steps: int) -> float:
    """Multiplier of the learning rate at a step: 1 for constant, 1 - t/T for linear, (1 + cos(pi t/T))/2 for cosine."""
    if schedule == "constant":
        return 1.0
    progress = min(step / num_steps, 1.0)
    return 1.0 - progress if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


def make_optimizer(
    parameters: Iterable[torch.nn.Parameter],
    recipe: Recipe,
    training: Training,
    lr: float,
    num_steps: int,
    device: torch.device,
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR | None]:
    """Build optimizer and schedule. A tensor rate is changed in place, so it is built here, once per trial.

    Args:
        parameters: Parameters of the inner module, on their device.
        recipe: Kind of learning rate; arguments of the optimizer.
        training: Optimizer and schedule.
        lr: Learning rate of step 0.
        num_steps: Steps of the whole trial, the length of the schedule.
        device: Where the parameters live.
    """
    rate: float | torch.Tensor = lr
    extra = dict(recipe.optimizer)
    if recipe.lr_kind != "float":
        rate = torch.tensor(lr, device=device if recipe.lr_kind == "device-tensor" else "cpu")
        if recipe.lr_kind == "device-tensor" and training.optimizer != "sgd":
            extra.setdefault("capturable", True)
    if device.type != "cuda":
        extra = {name: value for name, value in extra.items() if name not in CUDA_ONLY}
    optimizer = OPTIMIZERS[training.optimizer](parameters, lr=rate, **extra)
    if training.schedule == "constant":
        return optimizer, None
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: schedule_factor(training.schedule, step, num_steps)
    )
    return optimizer, scheduler


def make_stepper(
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LambdaLR | None,
    recipe: Recipe,
    first_rate: float,
) -> Stepper:
    """Compile the step, after the schedule was made: the other order fails."""
    return Stepper(
        optimizer=optimizer,
        step=_compile_step(optimizer, recipe),
        advance_schedule=(lambda: None) if scheduler is None else scheduler.step,
        first_rate=first_rate,
        scheduler=scheduler,
    )


def _compile_step(optimizer: torch.optim.Optimizer, recipe: Recipe) -> Callable[[], None]:
    def optimizer_step() -> None:
        optimizer.step()

    options = recipe.step_compile
    if options is None:
        return optimizer_step
    compiled = torch.compile(optimizer_step, dynamic=options.dynamic, mode=options.mode, backend=options.backend)
    if not recipe.step_dynamo_config:
        return compiled

    def configured_step() -> None:
        with torch._dynamo.config.patch(dict(recipe.step_dynamo_config)):
            compiled()

    return configured_step
