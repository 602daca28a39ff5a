"""The compile mode of the forward where sizes are fixed: recorded CUDA graphs, searched kernels, or the default.

The opposite advice of `no_cuda_graphs`: each is right for its own sizes. No level acts on a CPU (torch 2.13): there is
no graph to record, and what `max-autotune-no-cudagraphs` searches are kernels of Triton; its C++ kernels for a CPU take
constant weights, which a training has not.
"""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="cuda_graphs",
    title="CUDA graphs",
    layer="compiler output",
    levels={
        "reduce-overhead": Level(
            'The forward is compiled with mode="reduce-overhead": its kernels are recorded as a CUDA graph.',
            changes={"forward_mode": "reduce-overhead"},
        ),
        "default": Level("The forward is compiled in the default mode.", changes={"forward_mode": None}),
        "max-autotune-no-cudagraphs": Level(
            'The forward is compiled with mode="max-autotune-no-cudagraphs": the fastest of several kernels is '
            "searched for; nothing is recorded.",
            changes={"forward_mode": "max-autotune-no-cudagraphs"},
        ),
    },
    on="reduce-overhead",
    off={"today": "default"},
    requires=("compiled_forward", "cuda"),
    why_inert={"cuda": "no CUDA device: CUDA graphs cannot be recorded on a CPU"},
    numerics="rounding",
    expectations=(
        Expectation(
            "cudagraph_recordings",
            "more",
            "CUDA graphs are recorded, so that replaying one takes one launch instead of one per kernel",
        ),
    ),
    source="PyTorch, torch.compile: modes",
)
