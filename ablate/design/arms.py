"""Factors of a study -> the settings behind arm names, and the arm names that a setting carries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ablate.core.cell import Cell, Execution
from ablate.core.errors import UserError
from ablate.core.study import ExplicitCell, Factor, Study


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
