"""A recipe -> the same recipe with one bug planted in the training: what an equivalence test has to find.

A test-only optimization; its levels are the bugs. Each changes the parts of the training before it is put together, as
an optimization's own mistake would: nothing else of the training knows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.core.optimization import Level, OptimizationInfo

if TYPE_CHECKING:
    from ablate.train.parts import Parts

IGNORED_FROM = 20
BUGS = {
    "dropout-off": "No element is dropped.",
    "lr-frozen": "The learning rate stays where it started.",
    "lr-2-percent": "The learning rate is 2 % too large in every step.",
    "schedule-ignored": f"The schedule is ignored from step {IGNORED_FROM} on.",
    "stale-batch": "Each step trains on the batch of the step before.",
    "momentum-off": "The optimizer forgets the gradients of earlier steps.",
    "same-mask": "Every step draws the same random numbers.",
}


def planting(bug: str) -> dict[str, str]:
    """What a level sets in the recipe to plant a bug."""
    return {"adapt.planted": f"{Path(__file__)}:{bug.replace('-', '_')}"}


INFO = OptimizationInfo(
    name="planted",
    title="a planted bug",
    layer="benchmark",
    levels={"none": Level("The training as it is.", changes={})}
    | {bug: Level(sentence, changes=planting(bug)) for bug, sentence in BUGS.items()},
    on="none",
    off={"today": "dropout-off"},
    numerics="training",
    source="statistics.md, acceptance item 8",
)


def dropout_off(parts: Parts) -> None:
    """As a forgotten `model.train()` would, but for dropout alone."""
    import torch

    for module in parts.workload.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def lr_frozen(parts: Parts) -> None:
    """As a rate that the compiler took for a constant would be."""
    _change_schedule(parts, lambda factor, step: 1.0)


def lr_2_percent(parts: Parts) -> None:
    """Too small a difference for a test on final losses."""
    _change_schedule(parts, lambda factor, step: 1.02 * factor(step))


def schedule_ignored(parts: Parts) -> None:
    """As a schedule that is lost when the step is compiled again would be."""
    _change_schedule(parts, lambda factor, step: factor(min(step, IGNORED_FROM - 1)))


def stale_batch(parts: Parts) -> None:
    """As a non-blocking copy that is read too early, or a CUDA Graph's static input, would be.

    The first step of a window has no step before.
    """
    loss, scheduler = parts.workload.loss, parts.scheduler
    assert scheduler is not None, "only a schedule knows the step"
    last: dict[int, Any] = {}

    def late(forward: Any, batch: Any) -> Any:
        used = last.get(scheduler.last_epoch - 1, batch)
        last.clear()
        last[scheduler.last_epoch] = batch
        return loss(forward, used)

    parts.workload.loss = late  # type: ignore[method-assign]


def momentum_off(parts: Parts) -> None:
    """As optimizer state that is made anew in every step would be."""
    for group in parts.optimizer.param_groups:
        group["betas"] = (0.0, group["betas"][1])


def same_mask(parts: Parts) -> None:
    """As a mask that is drawn when a graph is recorded would be."""
    import torch

    loss = parts.workload.loss

    def seeded(forward: Any, batch: Any) -> Any:
        torch.manual_seed(0)
        return loss(forward, batch)

    parts.workload.loss = seeded  # type: ignore[method-assign]


def _change_schedule(parts: Parts, change: Callable[[Callable[[int], float], int], float]) -> None:
    from ablate.train.optimizer import restart_schedule

    scheduler = parts.scheduler
    assert scheduler is not None, "a constant rate has no schedule to get wrong"
    scheduler.lr_lambdas = [lambda step, factor=factor: change(factor, step) for factor in scheduler.lr_lambdas]
    restart_schedule(scheduler, 0)
