"""A study -> its `Design`: every cell with arm names, what is inert there and its effective key, and the trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from ablate.core.cell import Cell, Design, DesignedCell, Execution
from ablate.core.errors import UserError
from ablate.core.study import ExplicitCell, Factor, Study
from ablate.design.fraction import FEWEST_ACTING, acting_names
from ablate.design.game import half_fraction
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
        if fixed is not None and inert_reason(study, factor, "eager") is None:
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
    cells |= {f"eager-with-{f.name}": eager_cell(study, f.name) for f in acting_in_eager(study)}
    cells["eager-again"] = eager_cell(study, repeat=1)
    cells["full-again"] = compiled_cell(study, names, repeat=1)
    return cells


def acting_in_eager(study: Study) -> tuple[Factor, ...]:
    """Select the varying optimizations that act without compilation on the device of the study."""
    return tuple(f for f in study.varying if inert_reason(study, f, "eager") is None)


def inert_reason(study: Study, factor: Factor, execution: Execution) -> str | None:
    """Say why an optimization cannot act in cells of an execution mode; None where it can."""
    return factor.info.inert_reason(execution=execution, compile_step=study.compile_step, device=study.device)


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
        acts = written.execution == "compiled" or inert_reason(study, factor, "eager") is None
        if factor.name in written.levels and acts:
            levels[factor.name] = _level(factor, written.levels[factor.name])
    return Cell(execution=written.execution, levels=levels)


def _level(factor: Factor, text: str) -> str:
    if text in factor.info.levels:
        return text
    return {"on": factor.on, "off": factor.off}[text]


def _fixed_level(factor: Factor) -> str | None:
    return {"on": factor.on, "off": factor.off, "both": None}[factor.setting]


FEWEST_VARYING = {"factorial": 1, "ladder": 2, "leave-one-out": 1, "add-one-in": 1, "fraction": 4,
                  "cells": 0}  # fmt: skip


def make_design(study: Study) -> Design:
    """Lay out the cells of a study and the trials that measure them.

    Cells with few optimizations on, and the arms people compare first, come first, so that an effective key shared by
    several cells is measured in the plainest of them.

    Raises:
        UserError: too few varying optimizations for the kind of design, or an arm name that the study does not have.
    """
    fewest, varying = FEWEST_VARYING[study.design], len(study.varying)
    if varying < fewest:
        raise UserError(
            f"a {study.design} design needs at least {fewest} optimizations that are 'both' on and off, "
            f"this study has {varying}; set more of them to 'both'"
        )
    arms = named_cells(study)
    names = _arms_by_setting(arms)
    cells = tuple(_designed(study, cell, names.get(_setting(cell), ())) for cell in _cells(study, arms))
    tested = [explicit_cell(study, ExplicitCell(arm=name), arms) for name in arms_to_test(study)]
    return Design(
        kind=study.design,
        cells=cells,
        trials=plan_trials(study, cells),
        parity=plan_parity(study, cells, [_designed(study, cell, names[_setting(cell)]) for cell in tested]),
    )


def _cells(study: Study, arms: Mapping[str, Cell]) -> list[Cell]:
    names = [f.name for f in study.varying]
    if study.design == "cells":
        cells = [explicit_cell(study, written, arms) for written in study.cells]
    else:
        cells = [arms["eager"], arms["naive"], arms["full"]]
    if study.design == "factorial":
        cells += [compiled_cell(study, on) for size in range(len(names) + 1) for on in combinations(names, size)]
        cells += [arms[f"eager-with-{f.name}"] for f in acting_in_eager(study)]
        cells += [arms["eager-again"], arms["full-again"]]
    elif study.design == "fraction":
        cells += [compiled_cell(study, on) for on in half_fraction(_acting(study))]
    elif study.design == "ladder":
        cells = [arms["eager"], arms["naive"], *(arms[f"ladder-{k}"] for k in range(1, len(names) + 1))]
    elif study.design == "leave-one-out":
        cells += [arms[f"without-{name}"] for name in names]
    elif study.design == "add-one-in":
        cells += [arms[f"with-{name}"] for name in names]
    return list({_setting(cell): cell for cell in cells}.values())


def _acting(study: Study) -> tuple[str, ...]:
    """The optimizations of the fraction.

    Raises:
        UserError: fewer than four can act, so that main effects would be mixed up with pairs.
    """
    names = acting_names(study)
    if len(names) < FEWEST_ACTING:
        raise UserError(
            f"a fraction needs at least {FEWEST_ACTING} optimizations that act in compiled cells on this device, "
            f"this study has {len(names)} ({', '.join(names) or 'none'}); write design: factorial, it has only "
            f"{2 ** len(names)} compiled cells"
        )
    return names


def _designed(study: Study, cell: Cell, arms: tuple[str, ...]) -> DesignedCell:
    reasons = {f.name: inert_reason(study, f, cell.execution) for f in study.factors}
    active = {name: level for name, level in cell.levels.items() if reasons[name] is None}
    return DesignedCell(
        cell=cell,
        effective_key=Cell(execution=cell.execution, levels=active, repeat=cell.repeat).key,
        arms=arms or _arm_of_other_levels(study, cell),
        on=tuple(f.name for f in study.factors if _is_on(f, cell)),
        inert={f.name: reason for f in study.varying if (reason := reasons[f.name]) is not None},
    )


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
    names: dict[str, tuple[str, ...]] = {}
    for name, cell in arms.items():
        names[_setting(cell)] = (*names.get(_setting(cell), ()), name)
    return names


def _setting(cell: Cell) -> str:
    return cell.key
