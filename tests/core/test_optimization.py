"""Where an optimization can act, and the sentence that says why it cannot."""

import pytest

from ablate.core.errors import UserError
from ablate.core.optimization import Level, OptimizationInfo
from builders import OPTIMIZATIONS

LEVELS = {"a": Level("A."), "b": Level("B.")}


@pytest.mark.parametrize(
    ("name", "execution", "compile_step", "device", "reason"),
    [
        ("dynamic_shapes", "compiled", False, "cpu", None),
        ("dynamic_shapes", "eager", True, "cuda", "nothing is compiled in an eager cell"),
        ("tensor_lr", "compiled", True, "cpu", None),
        ("tensor_lr", "compiled", False, "cuda", "the optimizer step is not compiled (compile_step: false)"),
        ("no_cuda_graphs", "compiled", True, "cuda", None),
        ("no_cuda_graphs", "compiled", True, "cpu", "no CUDA device: CUDA graphs cannot be recorded on a CPU"),
        ("no_cuda_graphs", "eager", True, "cpu", "nothing is compiled in an eager cell"),
        ("sync_free", "eager", False, "cpu", None),
    ],
)
def test_where_the_five_act(name, execution, compile_step, device, reason):
    info, cell = OPTIMIZATIONS[name], {"execution": execution, "compile_step": compile_step, "device": device}
    assert info.inert_reason(**cell) == reason


def test_without_a_sentence_of_its_own_the_general_one_is_used():
    info = OptimizationInfo(
        name="x", title="x", layer="runtime", levels=LEVELS, on="a", off={"today": "b"},
        requires=("cuda",),
    )  # fmt: skip
    reason = info.inert_reason(execution="eager", compile_step=True, device="cpu")
    assert reason == "no CUDA device: it cannot act on a CPU"


def test_off_guide_falls_back_to_today():
    info = OptimizationInfo(name="x", title="x", layer="runtime", levels=LEVELS, on="a", off={"today": "b"})
    assert info.off_level("guide") == "b"


def test_a_level_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="level 'c' is unknown; known: a"):
        OptimizationInfo(name="x", title="x", layer="runtime", levels={"a": Level("A.")}, on="a", off={"today": "c"})


def test_what_the_workload_does_not_support_is_named_before_what_the_cell_lacks():
    info = OptimizationInfo(
        name="x", title="x", layer="runtime", levels=LEVELS, on="a", off={"today": "b"},
        requires=("compiled_forward", "supports:images"), why_inert={"supports:images": "there are no images"},
    )  # fmt: skip
    cell = {"execution": "eager", "compile_step": True, "device": "cpu"}
    assert info.inert_reason(**cell, supports={"hetero-keys"}) == "there are no images"
    assert info.inert_reason(**cell, supports={"images"}) == "nothing is compiled in an eager cell"
