"""Compiling itself as an optimization: the cell compiled as it is, or the same cell run eagerly."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="compile",
    title="compiling",
    layer="compiler",
    levels={
        "compiled": Level("Forward, backward and (with compile_step) the optimizer step are compiled.", changes={}),
        "eager": Level("Nothing is compiled.", changes={"execution": "eager"}),
    },
    on="compiled",
    off={"today": "eager"},
    numerics="rounding",
    requires=("compiled_forward",),
    expectations=(Expectation("compiles.forward", "more", "the forward is compiled at all"),),
    source="PyTorch, Introduction to torch.compile",
)
