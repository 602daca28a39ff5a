"""An optimization that lives outside the project: treat denormal floats as zero."""

from ablate.core.optimization import Level, OptimizationInfo

INFO = OptimizationInfo(
    name="flush_denormal",
    title="flush denormals",
    layer="runtime",
    levels={
        "flushed": Level("Denormal floats are treated as zero.", changes={"torch_settings.flush_denormal": True}),
        "kept": Level("Denormal floats are computed with.", changes={}),
    },
    on="flushed",
    off={"today": "kept"},
    numerics="rounding",
    source="a test",
)
