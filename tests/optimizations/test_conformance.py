"""Every registered optimization keeps the contract: declared levels, pure `apply`, off that changes nothing today."""

import ast
from pathlib import Path

import pytest

from ablate.core.evidence import COUNTERS
from ablate.core.optimization import LAYERS
from ablate.core.recipe import Recipe, compose_recipe
from ablate.plugins.registry import load_kind

MODULES = load_kind("optimizations")
GUIDE = ("dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free")
PARTS = ("sync_metrics", "sync_torchmetrics")
LEVELS = [(name, level) for name, module in MODULES.items() for level in module.INFO.levels]


@pytest.mark.parametrize("name", MODULES)
def test_info_is_complete(name):
    info = MODULES[name].INFO
    assert info.title and info.source and (info.layer in LAYERS or name == "encode_unique")
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in info.levels.values())
    assert info.on not in info.off.values()
    assert set(info.off) == {"today", "guide"}
    assert info.expectations and all(e.counter in COUNTERS and e.sentence for e in info.expectations)


@pytest.mark.parametrize("name", MODULES)
def test_a_guide_level_that_differs_from_today_is_labeled_as_an_emulation(name):
    info = MODULES[name].INFO
    restored = {info.off["guide"]} - {info.off["today"]}
    assert set(info.emulations) == restored


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_apply_is_pure_and_leaves_execution_alone(name, level):
    base = Recipe(execution="compiled", backend="eager")
    first, second = (MODULES[name].apply(base, level) for _ in range(2))
    assert base == Recipe(execution="compiled", backend="eager")
    assert first == second
    assert (first.execution, first.backend, first.compile_step) == ("compiled", "eager", True)


@pytest.mark.parametrize("name", MODULES)
def test_levels_differ_in_what_they_do(name):
    recipes = [MODULES[name].apply(Recipe(), level) for level in MODULES[name].INFO.levels]
    assert all(a != b for i, a in enumerate(recipes) for b in recipes[:i])


@pytest.mark.parametrize("name", MODULES)
def test_an_unknown_level_is_refused(name):
    with pytest.raises(KeyError):
        MODULES[name].apply(Recipe(), "no such level")


@pytest.mark.parametrize("name", MODULES)
def test_no_third_party_import_at_the_top(name):
    tree = ast.parse(Path(MODULES[name].__file__).read_text())
    modules = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert all(module.split(".")[0] in {"__future__", "dataclasses", "typing", "ablate"} for module in modules)
    assert not any(isinstance(node, ast.Import) for node in tree.body)


@pytest.mark.parametrize("name", MODULES)
def test_off_today_is_the_recipe_of_a_user_without_the_advice(name):
    module = MODULES[name]
    expected = Recipe(forward_mode="reduce-overhead") if name == "no_cuda_graphs" else Recipe()
    assert module.apply(Recipe(), module.INFO.off["today"]) == expected


def test_all_five_on_give_the_recipe_of_the_guide():
    changes = [(name, MODULES[name].apply, MODULES[name].INFO.on) for name in GUIDE]
    assert compose_recipe(Recipe(execution="compiled"), changes) == Recipe(
        execution="compiled",
        forward_dynamic=True,
        forward_mode=None,
        lr_kind="tensor",
        key_style="string",
        metric_policy="on-device",
        mean_metric="on-device",
    )


def test_all_five_at_the_guides_off_give_its_starting_point():
    changes = [(name, MODULES[name].apply, MODULES[name].INFO.off["guide"]) for name in GUIDE]
    assert compose_recipe(Recipe(execution="compiled"), changes) == Recipe(
        execution="compiled",
        forward_dynamic=False,
        forward_mode="reduce-overhead",
        lr_kind="float",
        step_dynamo_config={"specialize_float": True},
        key_style="tuple-breaking",
        metric_policy="syncing",
        mean_metric="validating",
    )


def test_the_layers_are_those_of_the_design():
    layers = {name: MODULES[name].INFO.layer for name in GUIDE}
    assert layers == {
        "dynamic_shapes": "compiler input",
        "tensor_lr": "compiler input",
        "string_keys": "compiler output",
        "no_cuda_graphs": "compiler output",
        "sync_free": "runtime",
    }


def test_the_parts_of_sync_free_add_up_to_it():
    changes = [(name, MODULES[name].apply, MODULES[name].INFO.on) for name in PARTS]
    assert compose_recipe(Recipe(), changes) == MODULES["sync_free"].apply(Recipe(), "sync-free")
    off = [(name, MODULES[name].apply, MODULES[name].INFO.off["today"]) for name in PARTS]
    assert compose_recipe(Recipe(), off) == MODULES["sync_free"].apply(Recipe(), "syncing")


def test_copies_are_no_part_of_the_guide():
    assert MODULES["copies"].apply(Recipe(), "non-blocking") == Recipe(copy_policy="non-blocking")
    assert MODULES["sync_free"].apply(Recipe(), "sync-free").copy_policy == "blocking"
