"""A recipe -> the same recipe with one bug planted in the training: what an equivalence test has to find.

A test-only optimization; its levels are the bugs. Each changes the ready session before its first step, as an
optimization's own mistake would: nothing else of the training knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.core.optimization import OptimizationInfo
from ablate.core.recipe import Recipe

if TYPE_CHECKING:
    from ablate.train.session import Session

IGNORED_FROM = 20

INFO = OptimizationInfo(
    name="planted",
    title="a planted bug",
    layer="benchmark",
    levels={
        "none": "The training as it is.",
        "dropout-off": "No element is dropped.",
        "lr-frozen": "The learning rate stays where it started.",
        "lr-2-percent": "The learning rate is 2 % too large in every step.",
        "schedule-ignored": f"The schedule is ignored from step {IGNORED_FROM} on.",
        "stale-batch": "Each step trains on the batch of the step before.",
        "momentum-off": "The optimizer forgets the gradients of earlier steps.",
        "same-mask": "Every step draws the same random numbers.",
    },
    on="none",
    off={"today": "dropout-off"},
    numerics="training",
    source="statistics.md, acceptance item 8",
)


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe that plants the bug of a level."""
    return recipe if level == "none" else replace(recipe, adapt=f"{Path(__file__)}:{level.replace('-', '_')}")


def dropout_off(session: Session) -> None:
    """As a forgotten `model.train()` would, but for dropout alone."""
    import torch

    for module in session.workload.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def lr_frozen(session: Session) -> None:
    """As a rate that the compiler took for a constant would be."""
    _change_schedule(session, lambda factor, step: 1.0)


def lr_2_percent(session: Session) -> None:
    """Too small a difference for a test on final losses."""
    _change_schedule(session, lambda factor, step: 1.02 * factor(step))


def schedule_ignored(session: Session) -> None:
    """As a schedule that is lost when the step is compiled again would be."""
    _change_schedule(session, lambda factor, step: factor(min(step, IGNORED_FROM - 1)))


def stale_batch(session: Session) -> None:
    """As a non-blocking copy that is read too early, or a CUDA Graph's static input, would be.

    The first step of a window has no step before.
    """
    loss, scheduler = session.workload.loss, session.stepper.scheduler
    assert scheduler is not None, "only a schedule knows the step"
    last: dict[int, Any] = {}

    def late(forward: Any, batch: Any) -> Any:
        used = last.get(scheduler.last_epoch - 1, batch)
        last.clear()
        last[scheduler.last_epoch] = batch
        return loss(forward, used)

    session.workload.loss = late  # type: ignore[method-assign]


def momentum_off(session: Session) -> None:
    """As optimizer state that is made anew in every step would be."""
    for group in session.stepper.optimizer.param_groups:
        group["betas"] = (0.0, group["betas"][1])


def same_mask(session: Session) -> None:
    """As a mask that is drawn when a graph is recorded would be."""
    import torch

    loss = session.workload.loss

    def seeded(forward: Any, batch: Any) -> Any:
        torch.manual_seed(0)
        return loss(forward, batch)

    session.workload.loss = seeded  # type: ignore[method-assign]


def _change_schedule(session: Session, change: Callable[[Callable[[int], float], int], float]) -> None:
    scheduler = session.stepper.scheduler
    assert scheduler is not None, "a constant rate has no schedule to get wrong"
    scheduler.lr_lambdas = [lambda step, factor=factor: change(factor, step) for factor in scheduler.lr_lambdas]
    session.stepper.restart(0)
