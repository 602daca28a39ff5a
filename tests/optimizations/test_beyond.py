"""Optimizations beyond the guide on a tiny ResNet that trains for real: what their counters show on and off."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from functools import cache

import pytest
import torch

from ablate.core.optimization import OptimizationInfo
from ablate.core.recipe import Recipe, compose_recipe
from ablate.core.study import Study, Timing, Training, WorkloadChoice
from ablate.plugins.registry import apply_of, find_module
from ablate.train.session import Session, open_session
from ablate.workloads.vision.resnet50 import INFO, VisionOptions
from builders import make_study

TINY = VisionOptions(arch="resnet18", image=32, classes=4, train_images=64, validation_images=20)
CHOICE = WorkloadChoice(info=INFO, options=dataclasses.asdict(TINY))
GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def tiny_study(optimizer: str = "adam", device: str = "cpu") -> Study:
    return replace(
        make_study(),
        workloads=(CHOICE,),
        timing=Timing(epochs=1, steps_per_epoch=2, horizon_epochs=1),
        training=Training(batch_size=8, optimizer=optimizer, schedule="constant"),  # type: ignore[arg-type]
        device=device,  # type: ignore[arg-type]
    )


def train(recipe: Recipe, optimizer: str = "adam", device: str = "cpu") -> Session:
    torch.set_num_threads(1)
    study = tiny_study(optimizer, device)
    session = open_session(study, INFO.name, recipe, seed=0, device=torch.device(device))
    session.train()
    assert torch.isfinite(session.module.losses).all()
    return session


@cache
def trained(name: str, level: str) -> Session:
    return train(apply_of(find_module("optimizations", name))(Recipe(), level))


def info_of(name: str) -> OptimizationInfo:
    info = find_module("optimizations", name).INFO
    assert isinstance(info, OptimizationInfo)
    return info


@pytest.mark.parametrize(
    ("name", "counter", "off", "on"),
    [
        ("channels_last", "channels_last_weights", 0.0, 1.0),
        ("fused_optimizer", "fused_groups", 0.0, 1.0),  # one group holds all weights
        ("bf16", "bfloat16_results", 0.0, None),
    ],
)
def test_the_counter_differs_as_expected(name: str, counter: str, off: float, on: float | None) -> None:
    info, module = info_of(name), find_module("optimizations", name)
    assert info.counters.keys() == {counter} and info.expectations[0].direction == "more"
    assert module.count(trained(name, info.off["today"])) == {counter: off}
    shown = module.count(trained(name, info.on))[counter]
    assert shown == on if on is not None else shown >= 20 + 1  # as many convolutions as resnet18 has, and its head


@pytest.mark.parametrize("name", ["channels_last", "fused_optimizer"])
def test_what_changes_rounding_only_trains_almost_the_same(name: str) -> None:
    info = info_of(name)
    assert info.numerics == "rounding"
    off, on = (trained(name, level).module.losses for level in (info.off["today"], info.on))
    assert on.tolist() == pytest.approx(off.tolist(), rel=1e-3)


def test_bfloat16_is_another_training() -> None:
    assert info_of("bf16").numerics == "training"
    off, on = (trained("bf16", level).module.losses for level in ("float32", "bfloat16"))
    assert on[0] != pytest.approx(float(off[0]), rel=1e-5)
    assert all(weight.dtype == torch.float32 for weight in trained("bf16", "bfloat16").workload.model.parameters())


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_every_optimizer_of_a_spec_fuses_on_a_cpu_with_every_kind_of_rate(optimizer: str) -> None:
    fuse = ("fused_optimizer", apply_of(find_module("optimizations", "fused_optimizer")), "fused")
    rate = ("tensor_lr", apply_of(find_module("optimizations", "tensor_lr")), "tensor")
    session = train(compose_recipe(Recipe(), [fuse, rate]), optimizer)
    assert all(group["fused"] for group in session.stepper.optimizer.param_groups)


def test_determinism_is_demanded_where_it_is_on() -> None:
    from ablate.train.session import apply_settings

    module = find_module("optimizations", "deterministic")
    session = trained("channels_last", "contiguous")
    try:
        apply_settings(apply_of(module)(Recipe(), "deterministic"), None)
        assert module.count(session) == {"deterministic_algorithms": 1.0}
        assert torch.backends.cudnn.deterministic
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic = False
    assert module.count(session) == {"deterministic_algorithms": 0.0}


@pytest.mark.slow
def test_searching_for_kernels_changes_no_generated_code_on_a_cpu() -> None:
    """Why `cuda_graphs` needs a GPU for `max-autotune-no-cudagraphs` too."""
    import re

    from torch._inductor.utils import run_and_get_code

    codes = []
    for mode in (None, "max-autotune-no-cudagraphs"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(1))
        network.append(torch.nn.Linear(8 * 14 * 14, 5))
        compiled = torch.compile(network, mode=mode)
        _, code = run_and_get_code(lambda compiled=compiled: compiled(torch.randn(4, 3, 16, 16)).sum().backward())
        codes.append([re.sub(r"# AOT ID.*|kernel_cpp_\w+|/tmp/\S+|c\w{50,}", "", text) for text in code])
    assert len(codes[0]) == 2 and codes[0] == codes[1]  # forward and backward


@pytest.mark.parametrize("name", [pytest.param("cuda_graphs", marks=GPU)])
def test_graphs_are_recorded_for_a_batch_of_fixed_size(name: str) -> None:
    apply, recordings = apply_of(find_module("optimizations", name)), []
    for level in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        session = train(apply(Recipe(execution="compiled"), level), device="cuda")
        recordings.append(session.watch.collect(compiled=True).counters["cudagraph_recordings"])
    assert recordings[0] == 0 < recordings[1]


@pytest.mark.parametrize("name", [pytest.param(n, marks=GPU) for n in ("channels_last", "fused_optimizer", "bf16")])
def test_they_act_on_a_gpu_too(name: str) -> None:
    info, module = info_of(name), find_module("optimizations", name)
    session = train(apply_of(module)(Recipe(), info.on), device="cuda")
    assert next(iter(module.count(session).values())) >= 1
