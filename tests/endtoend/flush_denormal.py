"""An optimization that lives outside the project: treat denormal floats as zero."""

from dataclasses import replace

from ablate.core.optimization import OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="flush_denormal",
    title="flush denormals",
    layer="runtime",
    levels={"flushed": "denormal floats are treated as zero", "kept": "denormal floats are computed with"},
    on="flushed",
    off={"today": "kept"},
    numerics="rounding",
    source="a test",
)


def apply(recipe: Recipe, level: str) -> Recipe:
    """Set torch's switch."""
    return replace(recipe, torch_settings={**recipe.torch_settings, "flush_denormal": level == "flushed"})
