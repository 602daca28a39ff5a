"""With or without reading the loss and checking a metric on the host, which wait for the device in every step."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="sync_free",
    title="synchronization-free training",
    layer="runtime",
    levels={
        "sync-free": Level(
            "Loss and metrics are accumulated on the device and read once an epoch.",
            changes={"metric_policy": "on-device", "mean_metric": "on-device"},
        ),
        "syncing": Level(
            "The loss is read back with .item() in every step, and metrics validate their input.",
            changes={"metric_policy": "syncing", "mean_metric": "validating"},
        ),
    },
    on="sync-free",
    off={"today": "syncing", "guide": "syncing"},
    numerics="identical",
    expectations=(
        Expectation("syncs_per_step", "fewer", "a training step makes the host wait for the device less often"),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): avoid device synchronizations",
)
