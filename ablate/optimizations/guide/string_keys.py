"""A recipe -> the same recipe with the style of ModuleDict keys set: strings, or tuples as PyG users write them."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="string_keys",
    title="string keys",
    layer="compiler output",
    levels={
        "string": "Modules of edge types are looked up by string keys.",
        "tuple": "Modules of edge types are looked up by tuples through PyG's ModuleDict, as users write it.",
        "tuple-breaking": "Modules of edge types are looked up by tuples through a function that the compiler does not "
        "trace, so every look-up splits the graph as it did from 2023 to 2025.",
    },
    on="string",
    off={"today": "tuple", "guide": "tuple-breaking"},
    emulations={"tuple-breaking": "emulation of the guide's starting point: tuple look-ups break the graph"},
    numerics="identical",
    requires=("compiled_forward",),
    expectations=(
        Expectation(
            counter="graph_breaks",
            direction="fewer",
            sentence="the forward has fewer graph breaks because no look-up leaves the compiled graph",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): string keys in ModuleDict",
)


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the key style of the level."""
    if level == "string":
        return replace(recipe, key_style="string")
    if level == "tuple":
        return replace(recipe, key_style="tuple")
    if level == "tuple-breaking":
        return replace(recipe, key_style="tuple-breaking")
    raise KeyError(level)
