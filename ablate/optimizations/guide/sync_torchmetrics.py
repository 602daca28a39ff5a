"""With or without a torchmetrics mean that checks its input: a part of `sync_free`."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="sync_torchmetrics",
    title="no metric that checks its input",
    layer="runtime",
    levels={
        "on-device": Level("The mean is kept on the device without a check.", changes={"mean_metric": "on-device"}),
        "validating": Level(
            "A torchmetrics mean is updated in every step and checks its input for NaN on the host.",
            changes={"mean_metric": "validating"},
        ),
    },
    on="on-device",
    off={"today": "validating", "guide": "validating"},
    numerics="identical",
    expectations=(Expectation("syncs_per_step", "fewer", "a training step waits for no check of a metric"),),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)
