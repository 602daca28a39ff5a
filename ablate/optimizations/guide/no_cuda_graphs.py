"""A recipe -> the same recipe with the compile mode of the forward set: default, or recording CUDA graphs."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="no_cuda_graphs",
    title="no CUDA graphs",
    layer="compiler output",
    levels={
        "default": "The forward is compiled in the default mode: no CUDA graph is recorded.",
        "cuda-graphs": 'The forward is compiled with mode="reduce-overhead": one CUDA graph is recorded for every '
        "distinct tuple of sizes.",
    },
    on="default",
    off={"today": "cuda-graphs", "guide": "cuda-graphs"},
    numerics="identical",
    requires=("compiled_forward", "cuda"),
    why_inert={"cuda": "no CUDA device: CUDA graphs cannot be recorded on a CPU"},
    expectations=(
        Expectation(
            counter="cudagraph_recordings",
            direction="fewer",
            sentence="fewer CUDA graphs are recorded (none), so no time and memory go into recording them per size",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): default mode, not reduce-overhead",
)

_MODE = {"default": None, "cuda-graphs": "reduce-overhead"}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the `mode` argument of the forward's `torch.compile` that the level stands for."""
    return replace(recipe, forward_mode=_MODE[level])
