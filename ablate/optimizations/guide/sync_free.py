"""A recipe -> the same recipe with or without calls that make the host wait for the device in every step."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="sync_free",
    title="synchronization-free training",
    layer="runtime",
    levels={
        "sync-free": "Loss and metrics are accumulated on the device and read once an epoch.",
        "syncing": "The loss is read back with .item() in every step, and metrics validate their input.",
    },
    on="sync-free",
    off={"today": "syncing", "guide": "syncing"},
    numerics="identical",
    requires=(),
    expectations=(
        Expectation(
            counter="syncs_per_step",
            direction="fewer",
            sentence="a training step makes the host wait for the device less often",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the metric policy of the level."""
    if level == "sync-free":
        return replace(recipe, metric_policy="on-device", mean_metric="on-device")
    if level == "syncing":
        return replace(recipe, metric_policy="syncing", mean_metric="validating")
    raise KeyError(level)
