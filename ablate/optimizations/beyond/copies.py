"""Blocking or non-blocking copies of batches to the device (not in the guide)."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="copies",
    title="non-blocking copies",
    layer="runtime",
    levels={
        "non-blocking": Level(
            "Batches are copied without waiting; needs pin_memory to have an effect.",
            changes={"copy_policy": "non-blocking"},
        ),
        "blocking": Level("The host waits for every copy of a batch.", changes={"copy_policy": "blocking"}),
    },
    on="non-blocking",
    off={"today": "blocking"},
    requires=("cuda",),
    expectations=(Expectation("syncs_per_step", "fewer", "a training step does not wait for its copies"),),
    source="PyTorch, pin_memory and non_blocking tutorial",
)
