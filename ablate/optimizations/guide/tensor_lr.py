"""The learning rate as a Python float or as a tensor."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="tensor_lr",
    title="tensor learning rate",
    layer="compiler input",
    levels={
        "tensor": Level(
            "The learning rate is a float32 tensor on the CPU, which the schedule changes in place.",
            changes={"lr_kind": "tensor"},
        ),
        "float": Level(
            "The learning rate is a Python float; its first change compiles the optimizer step once more.",
            changes={"lr_kind": "float"},
        ),
        "float-specialized": Level(
            "The learning rate is a Python float that the compiler treats as a constant, so every new value compiles "
            "the optimizer step again up to the recompile limit of 8, then it runs eagerly.",
            changes={"lr_kind": "float", "step_dynamo_config.specialize_float": True},
        ),
        "device-tensor": Level(
            "The learning rate is a float32 tensor on the training device, which the schedule changes in place.",
            changes={"lr_kind": "device-tensor"},
        ),
    },
    on="tensor",
    off={"today": "float", "guide": "float-specialized"},
    emulations={
        "float-specialized": "emulation of the guide's starting point: specialize_float=True for the optimizer step"
    },
    numerics="rounding",
    requires=("compiled_step",),
    expectations=(
        Expectation(
            "compiles.optimizer_step",
            "fewer",
            "the optimizer step is compiled less often because a new learning rate is a new value of the same tensor",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): lr=torch.tensor(lr)",
)
