"""A study and its cells -> the recipe each trains with, which cells train the same, which switches do nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ablate.core.cell import Cell, Design, Execution
from ablate.core.errors import UserError
from ablate.core.optimization import GENERAL_REASONS
from ablate.core.recipe import Apply, Recipe, compose_recipe
from ablate.core.serialize import to_dict
from ablate.core.study import Factor, Study
from ablate.plugins.registry import apply_of, find_module

Appliers = Mapping[str, Apply]
CHANGES_NOTHING = "it changes nothing here: on and off give the same recipe"


def find_appliers(study: Study) -> dict[str, Apply]:
    """Look up the function (recipe, level) -> recipe of each optimization of the study.

    Raises:
        UserError: an optimization is not installed, or its outside file cannot be used.
    """
    return {factor.name: _apply_of(factor) for factor in study.factors}


def _apply_of(factor: Factor) -> Apply:
    """Levels that are data need no module."""
    changes = {name: level.changes for name, level in factor.info.levels.items()}
    if any(change is None for change in changes.values()):
        return apply_of(find_module("optimizations", factor.name, factor.path))
    return lambda recipe, level: recipe.with_changes(changes[level] or {})


@dataclass(kw_only=True)
class Recipes:
    """Composes the recipe of any cell of a study, each once."""

    study: Study
    appliers: Appliers
    known: dict[str, Recipe] = field(default_factory=dict)

    @classmethod
    def of_study(cls, study: Study, appliers: Appliers | None = None) -> Recipes:
        """Look up what the optimizations of a study do, unless it is given.

        Raises:
            UserError: as `find_appliers`.
        """
        return cls(study=study, appliers=find_appliers(study) if appliers is None else appliers)

    def of(self, cell: Cell) -> Recipe:
        """The recipe of a cell.

        Raises:
            UserError: two optimizations contradict each other.
        """
        if cell.key not in self.known:
            self.known[cell.key] = compose_cell(self.study, cell, self.appliers)
        return self.known[cell.key]

    def identity(self, cell: Cell) -> tuple[str, int]:
        """What cells that train the same have in common: the effective recipe, and which repeat it is."""
        return json.dumps(to_dict(self.of(cell).effective), sort_keys=True, default=repr), cell.repeat

    def inert(self, cell: Cell) -> dict[str, str]:
        """The optimizations that cannot act in a cell -> why; those that stop it from compiling do act."""
        execution, found = self.of(cell).execution, {}
        for factor in self.study.factors:
            reason = self.study.inert_reason(factor, cell.execution)
            if reason is None and execution != cell.execution and not self._decides_execution(factor, cell):
                reason = self.study.inert_reason(factor, execution) and GENERAL_REASONS["compiled_forward"]
            if reason is not None:
                found[factor.name] = reason
        return found

    def idle(self, cells: Iterable[Cell]) -> frozenset[str]:
        """The varying optimizations whose switch changes the recipe of none of these cells."""
        cells = tuple(cells)
        return frozenset(f.name for f in self.study.varying if not any(self._switch_matters(f, cell) for cell in cells))

    def _switch_matters(self, factor: Factor, cell: Cell) -> bool:
        try:
            return len({self.identity(_at(cell, factor, level)) for level in (factor.off, factor.on)}) > 1
        except UserError:  # a neighbor that contradicts itself, and is perhaps no cell of the study
            return True

    def _decides_execution(self, factor: Factor, cell: Cell) -> bool:
        base = _base(self.study, cell.execution)
        level = cell.levels.get(factor.name)
        return level is not None and self.appliers[factor.name](base, level).execution != cell.execution


def compose_recipes(study: Study, design: Design, appliers: Appliers | None = None) -> dict[str, Recipe]:
    """Compose the recipe of every cell that is trained, before anything is trained.

    Args:
        study: Gives the compile backend and what the compiled mode compiles.
        design: Its trials, timed and parity, name the cells.
        appliers: What each optimization does; None looks it up.

    Returns:
        Recipe by `Cell.key`.

    Raises:
        UserError: two optimizations contradict each other.
    """
    recipes = Recipes.of_study(study, appliers)
    return {trial.cell.cell.key: recipes.of(trial.cell.cell) for trial in (*design.trials, *design.parity)}


def compose_cell(study: Study, cell: Cell, appliers: Appliers) -> Recipe:
    """Compose the recipe of one cell from the optimizations that can act in it; inert ones are left out.

    Where an optimization stops a compiled cell from compiling, it trains as an eager cell does.

    Raises:
        UserError: two optimizations contradict each other.
    """
    recipe = _compose(study, cell, appliers, cell.execution)
    return recipe if recipe.execution == cell.execution else _compose(study, cell, appliers, recipe.execution)


def _compose(study: Study, cell: Cell, appliers: Appliers, execution: Execution) -> Recipe:
    changes = [
        (factor.name, appliers[factor.name], cell.levels[factor.name])
        for factor in study.factors
        if factor.name in cell.levels and study.inert_reason(factor, execution) is None
    ]
    return compose_recipe(_base(study, execution), changes)


def _base(study: Study, execution: Execution) -> Recipe:
    return Recipe(execution=execution, backend=study.compile_backend, compile_step=study.compile_step)


def _at(cell: Cell, factor: Factor, level: str) -> Cell:
    return replace(cell, levels={**cell.levels, factor.name: level})


def for_parity(recipe: Recipe) -> Recipe:
    """Return the recipe with which a parity trial trains the cell of a timed one.

    Compiled code draws its dropout masks from its own generator; with `fallback_random` it draws those that eager
    draws from the same seed. That changes the generated code, so timed trials go without.
    """
    if recipe.execution == "eager":
        return recipe
    return replace(recipe, inductor_config={**recipe.inductor_config, "fallback_random": True})
