"""A recipe -> the same recipe with or without a torchmetrics mean that checks its input: a part of `sync_free`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="sync_torchmetrics",
    title="no metric that checks its input",
    layer="runtime",
    levels={
        "on-device": "The mean is kept on the device without a check.",
        "validating": "A torchmetrics mean is updated in every step and checks its input for NaN on the host.",
    },
    on="on-device",
    off={"today": "validating", "guide": "validating"},
    numerics="identical",
    requires=(),
    expectations=(
        Expectation(
            counter="syncs_per_step", direction="fewer", sentence="a training step waits for no check of a metric"
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)

_VALUES: dict[str, Literal["on-device", "validating"]] = {"on-device": "on-device", "validating": "validating"}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the mean metric of the level."""
    return replace(recipe, mean_metric=_VALUES[level])
