"""The compile mode of the forward: default, or recording CUDA graphs (the advice for sizes that change)."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="no_cuda_graphs",
    title="no CUDA graphs",
    layer="compiler output",
    levels={
        "default": Level(
            "The forward is compiled in the default mode: no CUDA graph is recorded.", changes={"forward_mode": None}
        ),
        "cuda-graphs": Level(
            'The forward is compiled with mode="reduce-overhead": one CUDA graph is recorded for every distinct tuple '
            "of sizes.",
            changes={"forward_mode": "reduce-overhead"},
        ),
    },
    on="default",
    off={"today": "cuda-graphs", "guide": "cuda-graphs"},
    numerics="identical",
    requires=("compiled_forward", "cuda"),
    why_inert={"cuda": "no CUDA device: CUDA graphs cannot be recorded on a CPU"},
    expectations=(
        Expectation(
            "cudagraph_recordings",
            "fewer",
            "fewer CUDA graphs are recorded (none), so no time and memory go into recording them per size",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): default mode, not reduce-overhead",
)
