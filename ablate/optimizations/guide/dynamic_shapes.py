"""A recipe -> the same recipe with `dynamic=` of the compiled forward set: a kernel for all sizes, or one each."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="dynamic_shapes",
    title="dynamic shapes",
    layer="compiler input",
    levels={
        "dynamic": "The forward is compiled with dynamic=True: sizes are symbols from the first batch on.",
        "automatic": "The forward is compiled with dynamic=None: the first batch gets a kernel of its own size, and a "
        "size becomes a symbol once it has changed.",
        "static": "The forward is compiled with dynamic=False: one kernel per batch size up to the recompile "
        "limit of 8, then eager execution.",
    },
    on="dynamic",
    off={"today": "automatic", "guide": "static"},
    emulations={"static": "emulation of the guide's starting point: dynamic=False, one kernel per shape"},
    numerics="rounding",
    requires=("compiled_forward",),
    expectations=(
        Expectation(
            counter="recompiles.forward",
            direction="fewer",
            sentence="the forward is recompiled less often because no kernel is bound to the size of one batch",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): dynamic=True",
)

_DYNAMIC = {"dynamic": True, "automatic": None, "static": False}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the `dynamic` argument of the forward's `torch.compile` that the level stands for."""
    return replace(recipe, forward_dynamic=_DYNAMIC[level])
