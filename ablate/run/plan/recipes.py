"""A study and its measured cells -> the recipe each of them trains with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ablate.core.cell import Cell, Design
from ablate.core.recipe import Apply, Recipe, compose_recipe
from ablate.core.study import Study
from ablate.plugins.registry import find_module

Appliers = Mapping[str, Apply]


def find_appliers(study: Study) -> dict[str, Apply]:
    """Look up `apply` of each optimization of the study.

    Raises:
        UserError: an optimization is not installed, or its outside file cannot be used.
    """
    return {factor.name: find_module("optimizations", factor.name, factor.path).apply for factor in study.factors}


def compose_recipes(study: Study, design: Design, appliers: Appliers | None = None) -> dict[str, Recipe]:
    """Compose the recipe of every cell that is trained, before anything is trained.

    Args:
        study: Gives the compile backend and what the compiled mode compiles.
        design: Its trials, timed and parity, name the cells.
        appliers: `apply` by optimization; None looks them up.

    Returns:
        Recipe by `Cell.key`.

    Raises:
        UserError: two optimizations contradict each other.
    """
    functions = find_appliers(study) if appliers is None else appliers
    cells = {trial.cell.cell.key: trial.cell.cell for trial in (*design.trials, *design.parity)}
    return {key: compose_cell(study, cell, functions) for key, cell in cells.items()}


def for_parity(recipe: Recipe) -> Recipe:
    """Return the recipe with which a parity trial trains the cell of a timed one.

    Compiled code draws its dropout masks from its own generator; with `fallback_random` it draws those that eager
    draws from the same seed. That changes the generated code, so timed trials go without.
    """
    if recipe.execution == "eager":
        return recipe
    return replace(recipe, inductor_config={**recipe.inductor_config, "fallback_random": True})


def compose_cell(study: Study, cell: Cell, appliers: Appliers) -> Recipe:
    """Compose the recipe of one cell from the optimizations that can act in it; inert ones are left out."""
    base = Recipe(execution=cell.execution, backend=study.compile_backend, compile_step=study.compile_step)
    changes = [
        (factor.name, appliers[factor.name], cell.levels[factor.name])
        for factor in study.factors
        if factor.name in cell.levels
        and factor.info.acts_in(execution=cell.execution, compile_step=study.compile_step, device=study.device)
    ]
    return compose_recipe(base, changes)
