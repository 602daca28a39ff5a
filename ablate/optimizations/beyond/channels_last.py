"""Weights and images with their channels last in memory, or first as torch makes them."""

from typing import Any

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="channels_last",
    title="channels last",
    layer="memory layout",
    levels={
        "channels-last": Level(
            "Weights of convolutions and batches of images lie in memory with their channels last.",
            changes={"memory_format": "channels-last"},
        ),
        "contiguous": Level(
            "Channels lie before height and width, as torch makes tensors.", changes={"memory_format": "contiguous"}
        ),
    },
    on="channels-last",
    off={"today": "contiguous"},
    numerics="rounding",
    requires=("supports:images",),
    why_inert={"supports:images": "this model has no images: only 4-dimensional tensors have channels to put last"},
    expectations=(
        Expectation(
            "channels_last_weights", "more", "the weights of convolutions lie in memory with their channels last"
        ),
    ),
    counters={"channels_last_weights": "share of convolution weights with channels last"},
    source="PyTorch, Channels Last Memory Format tutorial",
)


def count(session: Any) -> dict[str, float]:
    """Share of the convolution weights that lie with channels last; 1 x 1 kernels lie both ways and are left out."""
    import torch

    kernels = [w for w in session.workload.model.parameters() if w.dim() == 4 and w.shape[2] * w.shape[3] > 1]
    last = [w for w in kernels if w.is_contiguous(memory_format=torch.channels_last) and not w.is_contiguous()]
    return {"channels_last_weights": len(last) / len(kernels)} if kernels else {}
