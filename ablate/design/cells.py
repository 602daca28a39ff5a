"""A study -> its `Design`: every cell with arm names, what is inert there and its effective key, and the trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from ablate.core.cell import Cell, Design, DesignedCell, Execution
from ablate.core.errors import UserError
from ablate.core.study import FEWEST_VARYING, ExplicitCell, Factor, Study
from ablate.design.fraction import FEWEST_ACTING
from ablate.design.game import half_fraction
from ablate.design.recipes import CHANGES_NOTHING, Appliers, Recipes
from ablate.design.trials import arms_to_test, plan_parity, plan_trials


def compiled_cell(study: Study, on: Iterable[str], *, repeat: int = 0) -> Cell:
    """Build the compiled cell in which exactly the varying optimizations `on` are on; fixed ones stay as fixed."""
    chosen = set(on)
    levels = {f.name: _fixed_level(f) or (f.on if f.name in chosen else f.off) for f in study.factors}
    return Cell(execution="compiled", levels=levels, repeat=repeat)


def eager_cell(study: Study, on: str | None = None, *, repeat: int = 0) -> Cell:
    """Build eager as a user has it (everything off but what is fixed and acts there), or with one optimization on."""
    levels = {f.name: f.on if f.name == on else f.off for f in study.factors}
    for factor in study.factors:
        fixed = _fixed_level(factor)
        if fixed is not None and study.inert_reason(factor, "eager") is None:
            levels[factor.name] = fixed
    return Cell(execution="eager", levels=levels, repeat=repeat)


def named_cells(study: Study) -> dict[str, Cell]:
    """Build the cell behind every arm name of a study, in the order in which a cell's names are listed.

    Returns:
        Cell by arm name. Several names may stand for one setting, e.g. `naive` and `without-x` when only x varies.
    """
    names = [f.name for f in study.varying]
    cells = {"eager": eager_cell(study), "naive": compiled_cell(study, []), "full": compiled_cell(study, names)}
    singles = {f"with-{name}": compiled_cell(study, [name]) for name in names}
    singles |= {f"without-{name}": compiled_cell(study, set(names) - {name}) for name in names}
    ladder = {f"ladder-{k}": compiled_cell(study, names[:k]) for k in range(1, len(names) + 1)}
    cells |= {**ladder, **singles} if study.design == "ladder" else {**singles, **ladder}
    cells |= {f"eager-with-{f.name}": eager_cell(study, f.name) for f in study.acting("eager")}
    cells["eager-again"] = eager_cell(study, repeat=1)
    cells["full-again"] = compiled_cell(study, names, repeat=1)
    return cells


def explicit_cell(study: Study, written: ExplicitCell, arms: Mapping[str, Cell]) -> Cell:
    """Build the cell that a spec writes as an arm name or as an execution mode with levels.

    Optimizations that the text leaves out are off (or as fixed, in compiled cells); in eager cells those that
    cannot act stay off whatever the text says.

    Raises:
        UserError: an arm name that this study does not have.
    """
    if written.arm is not None:
        if written.arm not in arms:
            raise UserError(f"this study has no arm {written.arm!r}; it has {', '.join(arms)}")
        return arms[written.arm]
    base = eager_cell(study) if written.execution == "eager" else compiled_cell(study, [])
    levels = dict(base.levels)
    for factor in study.varying:
        acts = written.execution == "compiled" or study.inert_reason(factor, "eager") is None
        if factor.name in written.levels and acts:
            levels[factor.name] = _level(factor, written.levels[factor.name])
    return Cell(execution=written.execution, levels=levels)


def _level(factor: Factor, text: str) -> str:
    if text in factor.info.levels:
        return text
    return {"on": factor.on, "off": factor.off}[text]


def _fixed_level(factor: Factor) -> str | None:
    return {"on": factor.on, "off": factor.off, "both": None}[factor.setting]


def make_design(study: Study, appliers: Appliers | None = None) -> Design:
    """Lay out the cells of a study and the trials that measure them.

    Cells that train the same share one effective key. Cells with few optimizations on, and the arms people compare
    first, come first, so that a shared key is measured in the plainest of them.

    Args:
        study: The study.
        appliers: What each optimization does to a recipe; None looks it up.

    Raises:
        UserError: too few varying optimizations for the kind of design, an arm name that the study does not have, or
            optimizations that contradict each other in a cell.
    """
    fewest, varying = FEWEST_VARYING[study.design], len(study.varying)
    if varying < fewest:
        raise UserError(
            f"a {study.design} design needs at least {fewest} optimizations that are 'both' on and off, "
            f"this study has {varying}; set more of them to 'both'"
        )
    arms = named_cells(study)
    names = _arms_by_setting(arms)
    written = _cells(study, arms)
    tested = [explicit_cell(study, ExplicitCell(arm=name), arms) for name in arms_to_test(study)]
    designer = _Designer(study=study, recipes=Recipes.of_study(study, appliers), names=names, cells=(*written, *tested))
    cells = tuple(designer.designed(cell) for cell in written)
    return Design(
        kind=study.design,
        cells=cells,
        trials=plan_trials(study, cells),
        parity=plan_parity(study, cells, [designer.designed(cell) for cell in tested]),
    )


def _cells(study: Study, arms: Mapping[str, Cell]) -> list[Cell]:
    names = [f.name for f in study.varying]
    if study.design == "cells":
        cells = [explicit_cell(study, written, arms) for written in study.cells]
    else:
        cells = [arms["eager"], arms["naive"], arms["full"]]
    if study.design == "factorial":
        cells += [compiled_cell(study, on) for size in range(len(names) + 1) for on in combinations(names, size)]
        cells += [arms[f"eager-with-{f.name}"] for f in study.acting("eager")]
        cells += [arms["eager-again"], arms["full-again"]]
    elif study.design == "fraction":
        cells += [compiled_cell(study, on) for on in half_fraction(_acting_names(study))]
    elif study.design == "ladder":
        cells = [arms["eager"], arms["naive"], *(arms[f"ladder-{k}"] for k in range(1, len(names) + 1))]
    elif study.design == "leave-one-out":
        cells += [arms[f"without-{name}"] for name in names]
    elif study.design == "add-one-in":
        cells += [arms[f"with-{name}"] for name in names]
    return list({cell.key: cell for cell in cells}.values())


def _acting_names(study: Study) -> tuple[str, ...]:
    """The optimizations of the fraction.

    Raises:
        UserError: fewer than four can act, so that main effects would be mixed up with pairs.
    """
    names = tuple(f.name for f in study.acting("compiled"))
    if len(names) < FEWEST_ACTING:
        raise UserError(
            f"a fraction needs at least {FEWEST_ACTING} optimizations that act in compiled cells on this device, "
            f"this study has {len(names)} ({', '.join(names) or 'none'}); write design: factorial, it has only "
            f"{2 ** len(names)} compiled cells"
        )
    return names


class _Designer:
    """Knows which cells of a study train the same, and which switches change nothing in any of them."""

    def __init__(
        self, *, study: Study, recipes: Recipes, names: Mapping[str, tuple[str, ...]], cells: Sequence[Cell]
    ) -> None:
        self.study, self.recipes, self.names = study, recipes, names
        modes: tuple[Execution, ...] = ("eager", "compiled")
        self.idle = {mode: recipes.idle(cell for cell in cells if cell.execution == mode) for mode in modes}
        self.keys: dict[tuple[str, int], str] = {}
        for cell in cells:
            self.keys.setdefault(recipes.identity(cell), self._key(cell))

    def designed(self, cell: Cell) -> DesignedCell:
        inert, varying = self._inert(cell), [f.name for f in self.study.varying]
        return DesignedCell(
            cell=cell,
            effective_key=self.keys[self.recipes.identity(cell)],
            arms=self.names.get(cell.key, ()) or _arm_of_other_levels(self.study, cell),
            on=tuple(f.name for f in self.study.factors if _is_on(f, cell)),
            inert={name: inert[name] for name in varying if name in inert},
            execution=self.recipes.of(cell).execution,
        )

    def _key(self, cell: Cell) -> str:
        """The key of a cell with everything left out that cannot act there or changes nothing."""
        inert, execution = self._inert(cell), self.recipes.of(cell).execution
        if execution != cell.execution:
            inert = self.recipes.inert(replace(cell, execution=execution)) | inert
        levels = {name: level for name, level in cell.levels.items() if name not in inert}
        return Cell(execution=execution, levels=levels, repeat=cell.repeat).key

    def _inert(self, cell: Cell) -> dict[str, str]:
        return dict.fromkeys(self.idle[cell.execution], CHANGES_NOTHING) | self.recipes.inert(cell)


def _arm_of_other_levels(study: Study, cell: Cell) -> tuple[str, ...]:
    """Name a cell with a level that is neither on nor off; without a name of its own it could not be told apart."""
    others = [f for f in study.factors if cell.levels[f.name] not in (f.on, f.off)]
    if not others:
        return ()
    on = [f"+{f.name}" for f in study.factors if _is_on(f, cell)]
    return (" ".join([cell.execution, *on, *(f"{f.name}={cell.levels[f.name]}" for f in others)]),)


def _is_on(factor: Factor, cell: Cell) -> bool:
    return cell.levels[factor.name] == factor.on != factor.off


def _arms_by_setting(arms: Mapping[str, Cell]) -> dict[str, tuple[str, ...]]:
    return {cell.key: tuple(name for name, other in arms.items() if other.key == cell.key) for cell in arms.values()}
