"""Cells of small designs -> the weights of an optimization's loss difference, and tier 2 of simulated studies."""

from __future__ import annotations

import pytest

from ablate.analysis.training.margin_tests import optimization_weights
from ablate.core.study import Factor, Study
from ablate.design.cells import make_design
from ablate.design.lattice import Lattice
from ablate.optimizations.beyond import compile_forward
from benchmarks.equivalence.simulated import factorial_differences, full_lattice, run_simulated
from builders import make_factors, make_study

TWO = ("tensor_lr", "sync_free")


def lattice_of(study: Study) -> Lattice:
    return Lattice.of(study, make_design(study))


def test_a_complete_lattice_uses_every_cell() -> None:
    lattice = lattice_of(make_study(factors=make_factors(TWO)))
    weights = optimization_weights(lattice, "sync_free")
    by_cell = {subset: weights[key] for subset, key in lattice.compiled.items()}
    assert by_cell == {
        frozenset(): -0.5,
        frozenset({"tensor_lr"}): -0.5,
        frozenset({"sync_free"}): 0.5,
        frozenset(TWO): 0.5,
    }


def test_a_half_fraction_uses_the_sixteen_cells_of_the_half_and_leaves_naive_out() -> None:
    lattice = lattice_of(make_study(device="cuda", design="fraction"))
    assert len(lattice.compiled) == 17
    weights = optimization_weights(lattice, "sync_free")
    assert sorted(weights.values()) == [-1 / 8] * 8 + [1 / 8] * 8
    assert lattice.compiled[frozenset()] not in weights
    assert lattice.compiled[frozenset({"sync_free"})] in weights  # an odd number of five is on


def test_leave_one_out_compares_full_with_full_without_it() -> None:
    lattice = lattice_of(make_study(design="leave-one-out", factors=make_factors(("dynamic_shapes", *TWO))))
    weights = optimization_weights(lattice, "sync_free")
    assert weights == {
        lattice.compiled[frozenset({"dynamic_shapes", *TWO})]: 1.0,
        lattice.compiled[frozenset({"dynamic_shapes", "tensor_lr"})]: -1.0,
    }


def test_an_optimization_that_cannot_act_has_no_weights() -> None:
    assert optimization_weights(lattice_of(make_study()), "no_cuda_graphs") == {}


def test_a_factorial_contrast_recovers_its_truth() -> None:
    assert factorial_differences("test", 2000, 5, 0.7).mean() == pytest.approx(0.7, abs=0.02)  # sd .354 / sqrt(10,000)
    weights = optimization_weights(full_lattice(), "sync_free")
    assert sorted(set(weights.values())) == [-1 / 16, 1 / 16]


def test_error_rates_of_tier_2_hold_in_the_quick_form() -> None:
    rows = run_simulated(True)
    assert [row for row in rows if row.ok is False] == []
    assert sum(row.ok is True for row in rows) == 10


def test_weights_of_aliased_cells_add_up() -> None:
    """Without compiling `dynamic_shapes` does nothing: that pair is one cell, and only the compiled pair is left."""
    compiling = Factor(info=compile_forward.INFO, off_means="today", off="eager", on="compiled")
    study = make_study(factors=(compiling, *make_factors(["dynamic_shapes"])), blocks=1)
    lattice = Lattice.of(study, make_design(study))
    compiled = "compiled[compile=compiled,dynamic_shapes="
    assert optimization_weights(lattice, "dynamic_shapes") == {
        f"{compiled}dynamic]": 0.5,
        f"{compiled}automatic]": -0.5,
    }
    assert optimization_weights(lattice, "compile") == {
        f"{compiled}dynamic]": 0.5, f"{compiled}automatic]": 0.5, "eager[]": -1.0
    }  # fmt: skip
