"""A recipe -> the same recipe with each distinct row of a batch encoded once, then gathered (not in the guide)."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="encode_unique",
    title="encode distinct rows once",
    layer="data",
    levels={
        "distinct": "The loader gives each distinct row of a batch once; nodes that share a row gather its encoding. "
        "With dropout they share a mask too; without dropout only rounding differs.",
        "every": "Every node of a batch is encoded, as often as it was sampled.",
    },
    on="distinct",
    off={"today": "every", "guide": "every"},
    numerics="training",
    requires=(),
    expectations=(Expectation(counter="encoded_rows", direction="fewer", sentence="the encoders see fewer rows"),),
    source="Measured on the reference GNN: benchmarks/encode_unique",
)

_VALUES = {"distinct": True, "every": False}


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the rows to encode of the level."""
    return replace(recipe, encode_unique=_VALUES[level])
