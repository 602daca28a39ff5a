"""`dynamic=` of the compiled forward: one kernel for all sizes, or one each."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="dynamic_shapes",
    title="dynamic shapes",
    layer="compiler input",
    levels={
        "dynamic": Level(
            "The forward is compiled with dynamic=True: sizes are symbols from the first batch on.",
            changes={"forward_dynamic": True},
        ),
        "automatic": Level(
            "The forward is compiled with dynamic=None: the first batch gets a kernel of its own size, and a size "
            "becomes a symbol once it has changed.",
            changes={"forward_dynamic": None},
        ),
        "static": Level(
            "The forward is compiled with dynamic=False: one kernel per batch size up to the recompile limit of 8, "
            "then eager execution.",
            changes={"forward_dynamic": False},
        ),
    },
    on="dynamic",
    off={"today": "automatic", "guide": "static"},
    emulations={"static": "emulation of the guide's starting point: dynamic=False, one kernel per shape"},
    numerics="rounding",
    requires=("compiled_forward",),
    expectations=(
        Expectation(
            "recompiles.forward",
            "fewer",
            "the forward is recompiled less often because no kernel is bound to the size of one batch",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): dynamic=True",
)
