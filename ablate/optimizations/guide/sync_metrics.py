"""With or without `loss.item()` in every step: one part of `sync_free`."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="sync_metrics",
    title="loss kept on the device",
    layer="runtime",
    levels={
        "on-device": Level(
            "The loss is added up on the device and read once an epoch.", changes={"metric_policy": "on-device"}
        ),
        "reading": Level("The loss is read back with .item() in every step.", changes={"metric_policy": "syncing"}),
    },
    on="on-device",
    off={"today": "reading", "guide": "reading"},
    numerics="identical",
    expectations=(Expectation("syncs_per_step", "fewer", "a training step reads no loss back"),),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)
