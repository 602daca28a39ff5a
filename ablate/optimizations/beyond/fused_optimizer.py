"""The optimizer's update in one fused kernel, or in torch's own choice (foreach on a GPU, a loop on a CPU)."""

from typing import Any

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="fused_optimizer",
    title="fused optimizer",
    layer="optimizer",
    levels={
        "fused": Level(
            "One kernel updates all weights (adam, adamw and sgd have it, on a CPU too); torch compiles none, so a "
            "compiled step runs eagerly.",
            changes={"optimizer.fused": True},
        ),
        "default": Level("Torch chooses: foreach on a GPU, one weight after the other on a CPU.", changes={}),
    },
    on="fused",
    off={"today": "default"},
    numerics="rounding",
    expectations=(Expectation("fused_groups", "more", "the optimizer updates its weights by fused kernels"),),
    counters={"fused_groups": "groups of weights that the optimizer updates by a fused kernel"},
    source="PyTorch, torch.optim: foreach and fused",
)


def count(session: Any) -> dict[str, float]:
    """Groups of weights whose optimizer was told to fuse."""
    groups = session.stepper.optimizer.param_groups
    return {"fused_groups": float(sum(bool(group.get("fused")) for group in groups))}
