"""A recipe -> the same recipe with the learning rate kept as a Python float or as a tensor."""

from __future__ import annotations

from dataclasses import replace

from ablate.core.optimization import Expectation, OptimizationInfo
from ablate.core.recipe import Recipe

INFO = OptimizationInfo(
    name="tensor_lr",
    title="tensor learning rate",
    layer="compiler input",
    levels={
        "tensor": "The learning rate is a float32 tensor on the CPU, which the schedule changes in place.",
        "float": "The learning rate is a Python float; its first change compiles the optimizer step once more.",
        "float-specialized": "The learning rate is a Python float that the compiler treats as a constant, so every new "
        "value compiles the optimizer step again up to the recompile limit of 8, then it runs eagerly.",
        "device-tensor": "The learning rate is a float32 tensor on the training device, which the schedule changes in "
        "place.",
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
            counter="compiles.optimizer_step",
            direction="fewer",
            sentence="the optimizer step is compiled less often because a new learning rate is a new value of the same "
            "tensor",
        ),
    ),
    source="NVIDIA and Kumo, Optimize PyG with torch.compile (April 2025): lr=torch.tensor(lr)",
)


def apply(recipe: Recipe, level: str) -> Recipe:
    """Return the recipe with the kind of learning rate, and the compiler setting of the step, of the level."""
    if level == "float-specialized":
        step = {**recipe.step_dynamo_config, "specialize_float": True}
        return replace(recipe, lr_kind="float", step_dynamo_config=step)
    if level == "tensor":
        return replace(recipe, lr_kind="tensor")
    if level == "device-tensor":
        return replace(recipe, lr_kind="device-tensor")
    if level == "float":
        return replace(recipe, lr_kind="float")
    raise KeyError(level)
