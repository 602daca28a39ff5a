"""Recipes of cells: only optimizations that can act there are applied; contradictions are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.core.recipe import Recipe
from ablate.run.plan.recipes import compose_recipes
from builders import make_factors
from run_parts import make_run


def test_recipes_of_eager_naive_and_full_on_a_cpu(tmp_path: Path) -> None:
    study, design, _ = make_run(tmp_path, factors=make_factors(), compile_backend="inductor")
    recipes = compose_recipes(study, design)
    by_arm = {trial.cell.name: recipes[trial.cell.cell.key] for trial in design.trials}
    assert by_arm["eager"] == Recipe(execution="eager")
    assert (by_arm["naive"].execution, by_arm["naive"].forward_dynamic, by_arm["naive"].lr_kind) == (
        "compiled",
        None,
        "float",
    )
    full = by_arm["full"]
    assert (full.forward_dynamic, full.lr_kind, full.key_style, full.metric_policy) == (
        True,
        "tensor",
        "string",
        "on-device",
    )
    assert full.forward_mode is None  # CUDA graphs are inert here


def test_optimizations_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    study, design, _ = make_run(tmp_path)
    appliers = {
        "dynamic_shapes": lambda recipe, level: replace(recipe, lr_kind="float", forward_dynamic=True),
        "tensor_lr": lambda recipe, level: replace(recipe, forward_dynamic=False),
    }
    with pytest.raises(UserError, match="dynamic_shapes and tensor_lr both set forward_dynamic"):
        compose_recipes(study, design, appliers)
