"""A recipe -> the same recipe with or without `loss.item()` in every step: one part of `sync_free`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="sync_metrics",
    title="loss kept on the device",
    layer="runtime",
    levels={
        "on-device": "The loss is added up on the device and read once an epoch.",
        "reading": "The loss is read back with .item() in every step.",
    },
    on="on-device",
    off={"today": "reading", "guide": "reading"},
    numerics="identical",
    requires=(),
    expectations=(
        Expectation(counter="syncs_per_step", direction="fewer", sentence="a training step reads no loss back"),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)

_VALUES: dict[str, Literal["on-device", "syncing"]] = {"on-device": "on-device", "reading": "syncing"}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the way to keep the mean loss of the level."""
    return replace(recipe, metric_policy=_VALUES[level])
