"""A recipe -> the same recipe with blocking or non-blocking copies of batches to the device (not in the guide)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="copies",
    title="non-blocking copies",
    layer="runtime",
    levels={
        "non-blocking": "Batches are copied without waiting; needs pin_memory to have an effect.",
        "blocking": "The host waits for every copy of a batch.",
    },
    on="non-blocking",
    off={"today": "blocking", "guide": "blocking"},
    numerics="identical",
    requires=("cuda",),
    expectations=(
        Expectation(
            counter="syncs_per_step", direction="fewer", sentence="a training step does not wait for its copies"
        ),
    ),
    source="PyTorch, pin_memory and non_blocking tutorial",
)

_VALUES: dict[str, Literal["non-blocking", "blocking"]] = {"non-blocking": "non-blocking", "blocking": "blocking"}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the copy policy of the level."""
    return replace(recipe, copy_policy=_VALUES[level])
