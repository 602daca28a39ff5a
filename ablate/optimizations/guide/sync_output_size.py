"""A recipe -> the same recipe with or without sizes passed to calls that would ask for them: a part of `sync_free`."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="sync_output_size",
    title="sizes from the host",
    layer="runtime",
    levels={
        "passed": "Calls that need a size get it from the host, where the workload has such a call of its own.",
        "asked": "Sizes are asked from the device.",
    },
    on="passed",
    off={"today": "asked", "guide": "asked"},
    numerics="identical",
    requires=(),
    expectations=(
        Expectation(
            counter="syncs_per_step", direction="fewer", sentence="a training step asks the device for no size"
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)

_VALUES = {"passed": True, "asked": False}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the size passing of the level."""
    return replace(recipe, output_size=_VALUES[level])
