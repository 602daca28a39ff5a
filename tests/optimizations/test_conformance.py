"""Every registered optimization keeps the contract: declared levels, pure changes, off that changes nothing today."""

import ast
from pathlib import Path

import pytest

from ablate.core.evidence import COUNTERS
from ablate.core.optimization import GENERAL_REASONS, LAYERS, SUPPORTS
from ablate.core.recipe import Recipe, compose_recipe
from ablate.plugins.registry import apply_of, load_kind, make_catalog

MODULES = load_kind("optimizations")
APPLY = {name: apply_of(module) for name, module in MODULES.items()}
GUIDE = ("dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free")
PARTS = ("sync_metrics", "sync_torchmetrics")
LEVELS = [(name, level) for name, module in MODULES.items() for level in module.INFO.levels]
COMPILED = Recipe(execution="compiled", backend="eager")


@pytest.mark.parametrize("name", MODULES)
def test_info_is_complete(name: str) -> None:
    info = MODULES[name].INFO
    assert info.title and info.source and info.layer
    assert (info.layer in LAYERS) or name not in GUIDE
    assert all(level.sentence[0].isupper() and level.sentence.endswith(".") for level in info.levels.values())
    assert info.on not in info.off.values()
    assert set(info.off) == {"today", "guide"} if name in GUIDE else set(info.off) >= {"today"}
    assert all(e.counter in {*COUNTERS, *info.counters} and e.sentence for e in info.expectations)
    assert info.expectations


@pytest.mark.parametrize("name", MODULES)
def test_what_it_requires_exists_and_has_a_reason(name: str) -> None:
    info = MODULES[name].INFO
    supported = {SUPPORTS + what for workload in make_catalog().workloads.values() for what in workload.supports}
    for requirement in info.requires:
        assert requirement in GENERAL_REASONS or (requirement in supported and info.why_inert[requirement])


@pytest.mark.parametrize("name", MODULES)
def test_a_guide_level_that_differs_from_today_is_labeled_as_an_emulation(name: str) -> None:
    info = MODULES[name].INFO
    assert set(info.emulations) == {info.off_level("guide")} - {info.off_level("today")}


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_a_level_is_pure_and_leaves_execution_alone(name: str, level: str) -> None:
    first, second = (APPLY[name](COMPILED, level) for _ in range(2))
    assert Recipe(execution="compiled", backend="eager") == COMPILED
    assert first == second
    expected = "eager" if (name, level) == ("compile", "eager") else "compiled"
    assert (first.execution, first.backend, first.compile_step) == (expected, "eager", True)


@pytest.mark.parametrize("name", MODULES)
def test_levels_differ_in_what_they_do(name: str) -> None:
    recipes = [APPLY[name](COMPILED, level) for level in MODULES[name].INFO.levels]
    assert all(a != b for i, a in enumerate(recipes) for b in recipes[:i])


@pytest.mark.parametrize("name", MODULES)
def test_an_unknown_level_is_refused(name: str) -> None:
    with pytest.raises(KeyError):
        APPLY[name](Recipe(), "no such level")


@pytest.mark.parametrize("name", MODULES)
def test_no_third_party_import_at_the_top(name: str) -> None:
    tree = ast.parse(Path(str(MODULES[name].__file__)).read_text())
    modules = {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert all(module.split(".")[0] in {"__future__", "collections", "typing", "ablate"} for module in modules)
    assert not any(isinstance(node, ast.Import) for node in tree.body)


@pytest.mark.parametrize("name", MODULES)
def test_off_today_is_the_recipe_of_a_user_without_the_advice(name: str) -> None:
    today = MODULES[name].INFO.off["today"]
    expected = {"no_cuda_graphs": Recipe(execution="compiled", backend="eager", forward_mode="reduce-overhead"),
                "compile": Recipe(execution="eager", backend="eager")}  # fmt: skip
    assert APPLY[name](COMPILED, today) == expected.get(name, COMPILED)


def test_all_five_on_give_the_recipe_of_the_guide() -> None:
    changes = [(name, APPLY[name], MODULES[name].INFO.on) for name in GUIDE]
    assert compose_recipe(Recipe(execution="compiled"), changes) == Recipe(
        execution="compiled",
        forward_dynamic=True,
        forward_mode=None,
        lr_kind="tensor",
        model={"keys": "string"},
        metric_policy="on-device",
        mean_metric="on-device",
    )


def test_all_five_at_the_guides_off_give_its_starting_point() -> None:
    changes = [(name, APPLY[name], MODULES[name].INFO.off["guide"]) for name in GUIDE]
    assert compose_recipe(Recipe(execution="compiled"), changes) == Recipe(
        execution="compiled",
        forward_dynamic=False,
        forward_mode="reduce-overhead",
        lr_kind="float",
        step_dynamo_config={"specialize_float": True},
        model={"keys": "tuple-breaking"},
        metric_policy="syncing",
        mean_metric="validating",
    )


def test_the_layers_are_those_of_the_design() -> None:
    layers = {name: MODULES[name].INFO.layer for name in GUIDE}
    assert layers == {
        "dynamic_shapes": "compiler input",
        "tensor_lr": "compiler input",
        "string_keys": "compiler output",
        "no_cuda_graphs": "compiler output",
        "sync_free": "runtime",
    }


def test_the_parts_of_sync_free_add_up_to_it() -> None:
    changes = [(name, APPLY[name], MODULES[name].INFO.on) for name in PARTS]
    assert compose_recipe(Recipe(), changes) == APPLY["sync_free"](Recipe(), "sync-free")
    off = [(name, APPLY[name], MODULES[name].INFO.off["today"]) for name in PARTS]
    assert compose_recipe(Recipe(), off) == APPLY["sync_free"](Recipe(), "syncing")


def test_copies_are_no_part_of_the_guide() -> None:
    assert APPLY["copies"](Recipe(), "non-blocking") == Recipe(copy_policy="non-blocking")
    assert APPLY["sync_free"](Recipe(), "sync-free").copy_policy == "blocking"


def test_switching_compiling_off_is_plain_eager_whatever_the_compiler_was_told() -> None:
    changes = [("compile", APPLY["compile"], "eager"), ("dynamic_shapes", APPLY["dynamic_shapes"], "dynamic")]
    assert compose_recipe(Recipe(execution="compiled"), changes).effective == Recipe().effective


@pytest.mark.parametrize(("name", "reason"), [
    ("string_keys", "this model has no look-ups by edge type"),
    ("encode_unique", "this model encodes no rows of tables"),
    ("channels_last", None),
    ("cuda_graphs", "no CUDA device: CUDA graphs cannot be recorded on a CPU"),
    ("fused_optimizer", None),
    ("compile", None),
])  # fmt: skip
def test_where_they_act_on_images_on_a_cpu(name: str, reason: str | None) -> None:
    info = MODULES[name].INFO
    assert info.inert_reason(execution="compiled", compile_step=True, device="cpu", supports={"images"}) == reason


def test_images_are_needed_for_channels_to_be_last() -> None:
    reason = MODULES["channels_last"].INFO.inert_reason(
        execution="eager", compile_step=True, device="cpu", supports={"hetero-keys"}
    )
    assert reason == "this model has no images: only 4-dimensional tensors have channels to put last"
