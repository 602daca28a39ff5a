"""Forward in bfloat16 where torch's autocast allows it, or in float32."""

from typing import Any

from ablate.core.optimization import Expectation, Level, OptimizationInfo

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
    expectations=(Expectation("bfloat16_results", "more", "operations of the forward compute in bfloat16"),),
    counters={"bfloat16_results": "operations of a forward whose result is bfloat16"},
    source="PyTorch, Automatic Mixed Precision",
)


def count(session: Any) -> dict[str, float]:
    """Operations of an eager forward on the first batch that give bfloat16; the training is not touched."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    results: list[torch.dtype] = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            results.append(getattr(result, "dtype", torch.float32))
            return result

    model, batch = session.workload.model, session.parts.move(session.dataset[0])
    model.eval()  # draws no masks and leaves the statistics of batch norms alone
    with torch.no_grad(), Watch():  # type: ignore[no-untyped-call]
        session.parts.loss(model, batch)
    model.train()
    return {"bfloat16_results": float(results.count(torch.bfloat16))}
