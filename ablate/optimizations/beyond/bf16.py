"""Forward in bfloat16 where torch's autocast allows it, or in float32."""

from __future__ import annotations

from ablate.core.optimization import Level, OptimizationInfo

INFO = OptimizationInfo(
    name="bf16",
    title="bfloat16 autocast",
    layer="arithmetic",
    levels={
        "bfloat16": Level(
            "Matrix products and convolutions of the forward compute in bfloat16; weights stay in float32.",
            changes={"autocast": "bfloat16"},
        ),
        "float32": Level("Everything computes in float32.", changes={"autocast": None}),
    },
    on="bfloat16",
    off={"today": "float32"},
    numerics="training",
    source="PyTorch, Automatic Mixed Precision",
)
