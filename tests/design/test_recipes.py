"""Recipes of cells: only optimizations that can act there are applied; contradictions are named."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.core.errors import UserError
from ablate.core.optimization import Level, OptimizationInfo
from ablate.core.recipe import Recipe
from ablate.core.study import Factor
from ablate.design.cells import make_design
from ablate.design.contrasts import make_contrasts
from ablate.design.recipes import CHANGES_NOTHING, compose_recipes
from ablate.optimizations.beyond import compile_forward
from builders import make_factors, make_study
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
    assert (full.forward_dynamic, full.lr_kind, full.model["keys"], full.metric_policy) == (
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


def factor_of(name: str, changes: dict[str, Any] | None, requires: tuple[str, ...] = ()) -> Factor:
    """An optimization whose on level sets something, and whose off level sets nothing."""
    levels = {"on": Level("On.", changes=changes), "off": Level("Off.", changes={})}
    info = OptimizationInfo(
        name=name, title=name, layer="x", levels=levels, on="on", off={"today": "off"}, requires=requires
    )
    return Factor(info=info, off_means="today", off="off", on="on")


def compile_factor() -> Factor:
    return Factor(info=compile_forward.INFO, off_means="today", off="eager", on="compiled")


LAYOUT = {"memory_format": "channels-last"}


def test_a_switch_that_sets_what_is_set_already_makes_no_second_cell() -> None:
    """`already` sets what every cell has: one of the two was trained for nothing, and its effect got a number."""
    study = make_study(factors=(factor_of("layout", LAYOUT), factor_of("already", {"lr_kind": "float"})), blocks=1)
    design = make_design(study)
    assert set(design.effective_keys) == {
        "eager[layout=off]", "eager[layout=on]", "eager[layout=off]#1",
        "compiled[layout=off]", "compiled[layout=on]", "compiled[layout=on]#1",
    }  # fmt: skip
    assert len(design.trials) == 6
    assert all(cell.inert["already"] == CHANGES_NOTHING for cell in design.cells)
    effects, _ = make_contrasts(study, design)
    (found,) = (c for c in effects if (c.kind, c.subject) == ("optimization", "already"))
    assert (found.weights, found.why_inert) == ({}, CHANGES_NOTHING)


def test_compiling_as_a_factor_makes_its_off_cells_aliases_of_the_eager_ones() -> None:
    study = make_study(factors=(compile_factor(), factor_of("layout", LAYOUT)), blocks=1)
    design = make_design(study)
    keys = {name: cell.effective_key for cell in design.cells for name in cell.arms}
    assert keys["naive"] == keys["eager"] == "eager[layout=off]"
    assert keys["with-layout"] == keys["eager-with-layout"] == "eager[layout=on]"
    assert keys["with-compile"] == "compiled[compile=compiled,layout=off]"
    assert keys["full"] == "compiled[compile=compiled,layout=on]"
    assert len(design.trials) == 4 + 2  # and eager-again, full-again
    assert [cell.compiles for cell in design.cells if "naive" in cell.arms] == [False]


def test_shapley_values_of_compiling_and_layout_add_up_to_the_total() -> None:
    """Seconds 8 (eager), 6 (layout alone), 5 (compiled), 3 (both).

    In logs the two orders give compile ln(8/5) first and ln(6/3) second: (ln 1.6 + ln 2) / 2 = ln sqrt(3.2); layout
    ln(8/6) and ln(5/3): ln sqrt(20/9). Together ln sqrt(64/9) = ln(8/3), the total; what compiling alone gives between
    eager and naive is 0, since they are one cell.
    """
    study = make_study(factors=(compile_factor(), factor_of("layout", LAYOUT)), blocks=1)
    design = make_design(study)
    keys = {name: cell.effective_key for cell in design.cells for name in cell.arms}
    seconds = {keys["eager"]: 8.0, keys["eager-with-layout"]: 6.0, keys["with-compile"]: 5.0, keys["full"]: 3.0}
    contrasts, refusals = make_contrasts(study, design)
    gains = {
        (c.kind, c.subject): sum(weight * math.log(seconds[key]) for key, weight in c.weights.items())
        for c in contrasts
        if c.kind != "a/a"
    }
    assert not refusals
    assert gains["compile", ""] == 0
    assert gains["total", ""] == pytest.approx(math.log(8 / 3))
    assert gains["optimization", "compile"] == pytest.approx(math.log(3.2) / 2)
    assert gains["optimization", "layout"] == pytest.approx(math.log(20 / 9) / 2)
    assert gains["interaction", "compile × layout"] == pytest.approx(math.log(5 / 3) - math.log(8 / 6))
    (compiling,) = (c for c in contrasts if c.kind == "compile")
    assert compiling.why_inert == "the cells that it compares train the same"


def test_what_needs_a_compiler_is_inert_where_compiling_is_off() -> None:
    needy = factor_of("needy", {"forward_dynamic": True}, requires=("compiled_forward",))
    study = make_study(factors=(compile_factor(), needy), blocks=1)
    design = make_design(study)
    by_on = {cell.on: cell for cell in design.cells if cell.cell.execution == "compiled" and not cell.cell.repeat}
    assert by_on["needy",].effective_key == by_on[()].effective_key == "eager[]"
    assert by_on["needy",].inert == {"needy": "nothing is compiled here"}
    assert by_on["compile", "needy"].inert == {}
