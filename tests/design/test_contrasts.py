"""Contrast weights -> lattices solved by hand, the identity, and refusals that name what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ablate.core.cell import Design
from ablate.core.contrast import Contrast, Refusal
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from ablate.design.contrasts import make_contrasts
from ablate.design.game import shapley_weights
from builders import make_factors, make_study

A, B, C = (frozenset({name}) for name in "abc")
NONE: frozenset[str] = frozenset()


def value(weights: Mapping[frozenset[str], Fraction], y: Mapping[str, float]) -> float:
    """Apply weights to log times named by what is on (`''`, `a`, `ab`, ...)."""
    return sum(float(w) * y["".join(sorted(on))] for on, w in weights.items())


def by_subject(results: list[Contrast], kind: str) -> dict[str, Contrast]:
    return {c.subject: c for c in results if c.kind == kind}


def random_times(design: Design, seed: int) -> dict[str, float]:
    generator = np.random.default_rng(seed)
    return {key: float(generator.normal(2.0, 0.5)) for key in design.effective_keys}


def apply(contrast: Contrast, log_times: Mapping[str, float]) -> float:
    return sum(weight * log_times[key] for key, weight in contrast.weights.items())


def test_two_optimizations_by_hand() -> None:
    y = {"": 4.0, "a": 3.0, "b": 3.5, "ab": 1.0}
    # a alone saves 1.0, on top of b 2.5; b alone saves 0.5, on top of a 2.0
    assert value(shapley_weights([A, B], 0), y) == pytest.approx((1.0 + 2.5) / 2, abs=1e-12)
    assert value(shapley_weights([A, B], 1), y) == pytest.approx((0.5 + 2.0) / 2, abs=1e-12)


def test_three_optimizations_by_hand() -> None:
    y = {"": 10.0, "a": 9.0, "b": 8.0, "c": 10.0, "ab": 6.0, "ac": 8.0, "bc": 7.0, "abc": 3.0}
    # a: alone 1 (1/3), after b 2 (1/6), after c 2 (1/6), after bc 4 (1/3)
    assert value(shapley_weights([A, B, C], 0), y) == pytest.approx(1 / 3 + 2 / 6 + 2 / 6 + 4 / 3, abs=1e-12)
    # b: alone 2, after a 3, after c 3, after ac 5
    assert value(shapley_weights([A, B, C], 1), y) == pytest.approx(2 / 3 + 3 / 6 + 3 / 6 + 5 / 3, abs=1e-12)
    # c: alone 0, after a 1, after b 1, after ab 3
    assert value(shapley_weights([A, B, C], 2), y) == pytest.approx(0 / 3 + 1 / 6 + 1 / 6 + 3 / 3, abs=1e-12)


def test_grouped_game_by_hand() -> None:
    y = {"": 10.0, "a": 9.0, "b": 8.0, "c": 10.0, "ab": 6.0, "ac": 8.0, "bc": 7.0, "abc": 3.0}
    # layer {a, b} saves 4 alone and 7 after c; layer {c} saves 0 alone and 3 after {a, b}
    assert value(shapley_weights([A | B, C], 0), y) == pytest.approx(5.5, abs=1e-12)
    assert value(shapley_weights([A | B, C], 1), y) == pytest.approx(1.5, abs=1e-12)


def test_five_optimizations_have_the_coefficients_of_the_literature() -> None:
    players = [frozenset({name}) for name in "abcde"]
    weights = shapley_weights(players, 0)
    assert len(weights) == 32
    by_size = {len(on): float(weight) for on, weight in weights.items() if "a" not in on}
    assert by_size == pytest.approx({0: 1 / 5, 1: 1 / 20, 2: 1 / 30, 3: 1 / 20, 4: 1 / 5}, abs=1e-15)
    assert sum(float(w) ** 2 for w in weights.values()) == pytest.approx(0.213, abs=5e-4)


def test_variance_of_leave_one_out_is_two() -> None:
    study = make_study(device="cuda")
    contrasts, _ = make_contrasts(study, make_design(study))
    for contrast in by_subject(contrasts, "leave-one-out").values():
        assert sum(weight**2 for weight in contrast.weights.values()) == 2


@pytest.mark.parametrize(("device", "compile_step"), list(product(("cpu", "cuda"), (True, False))))
@pytest.mark.parametrize("num", [1, 2, 3, 5])
def test_compile_term_and_attribution_add_up(device: str, compile_step: bool, num: int) -> None:
    names = ("sync_free", "tensor_lr", "dynamic_shapes", "no_cuda_graphs", "string_keys")[:num]
    study = make_study(factors=make_factors(names), device=device, compile_step=compile_step)
    design = make_design(study)
    contrasts, refusals = make_contrasts(study, design)
    assert refusals == []
    log_times = random_times(design, seed=num)
    total = apply(by_subject(contrasts, "total")[""], log_times)
    compile_term = apply(by_subject(contrasts, "compile")[""], log_times)
    for kind in ("optimization", "layer", "ladder"):
        parts = sum(apply(c, log_times) for c in by_subject(contrasts, kind).values())
        assert compile_term + parts == pytest.approx(total, abs=1e-10)


def test_inert_optimizations_have_no_weights_and_a_reason() -> None:
    study = make_study(compile_step=False)
    contrasts, _ = make_contrasts(study, make_design(study))
    found = by_subject(contrasts, "optimization")
    assert found["no_cuda_graphs"].weights == {}
    assert "CPU" in (found["no_cuda_graphs"].why_inert or "")
    assert found["tensor_lr"].weights == {}
    assert "compile_step" in (found["tensor_lr"].why_inert or "")
    assert len(found["sync_free"].weights) == 2**3
    layer = by_subject(contrasts, "layer")["compiler output"]
    assert len(layer.weights) == 2**3  # string_keys still acts


def test_every_weight_sits_on_a_measured_key_and_sums_to_zero() -> None:
    study = make_study()
    design = make_design(study)
    contrasts, _ = make_contrasts(study, design)
    for contrast in contrasts:
        assert set(contrast.weights) <= set(design.effective_keys)
        assert sum(contrast.weights.values()) == pytest.approx(0, abs=1e-15)


def test_leave_one_out_design_refuses_shapley_and_names_cells() -> None:
    study = make_study(design="leave-one-out", factors=make_factors(["dynamic_shapes", "tensor_lr", "sync_free"]))
    contrasts, refusals = make_contrasts(study, make_design(study))
    assert set(by_subject(contrasts, "leave-one-out")) == {"dynamic_shapes", "tensor_lr", "sync_free"}
    shapley = next(r for r in refusals if r.kind == "optimization" and r.subject == "sync_free")
    assert shapley.missing == ("with-dynamic_shapes", "with-tensor_lr", "with-sync_free")
    assert Refusal(kind="add-one-in", subject="tensor_lr", missing=("with-tensor_lr",)) in refusals


def test_layers_can_be_identified_where_single_optimizations_are_not() -> None:
    names = ["dynamic_shapes", "tensor_lr", "sync_free"]
    cells = (
        ExplicitCell(arm="eager"),
        ExplicitCell(arm="naive"),
        ExplicitCell(arm="full"),
        ExplicitCell(arm="with-sync_free"),
        ExplicitCell(arm="without-sync_free"),
    )
    study = make_study(design="cells", cells=cells, factors=make_factors(names))
    contrasts, refusals = make_contrasts(study, make_design(study))
    assert set(by_subject(contrasts, "layer")) == {"compiler input", "runtime"}
    assert "dynamic_shapes" in {r.subject for r in refusals if r.kind == "optimization"}


def test_aliases_make_a_small_design_enough() -> None:
    """Two optimizations of which one cannot act: leave-one-out holds the whole game of the other."""
    study = make_study(design="leave-one-out", factors=make_factors(["dynamic_shapes", "no_cuda_graphs"]))
    contrasts, refusals = make_contrasts(study, make_design(study))
    found = by_subject(contrasts, "optimization")
    assert sorted(found["dynamic_shapes"].weights.values()) == [-1.0, 1.0]
    assert found["no_cuda_graphs"].weights == {}
    assert not [r for r in refusals if r.kind in ("optimization", "layer")]


def test_ladder_steps_follow_the_order_of_the_spec() -> None:
    study = make_study(design="ladder", device="cuda")
    design = make_design(study)
    contrasts, _ = make_contrasts(study, design)
    steps = by_subject(contrasts, "ladder")
    assert list(steps) == [f.name for f in study.factors]
    arms = {arm: cell.effective_key for cell in design.cells for arm in cell.arms}
    assert steps["tensor_lr"].weights == {arms["ladder-1"]: 1.0, arms["ladder-2"]: -1.0}


def test_eager_optimizations_and_pairs() -> None:
    study = make_study()
    design = make_design(study)
    contrasts, _ = make_contrasts(study, design)
    arms = {arm: cell.effective_key for cell in design.cells for arm in cell.arms}
    in_eager = by_subject(contrasts, "eager-optimization")
    assert {s: c.weights for s, c in in_eager.items()} == {
        "sync_free": {arms["eager"]: 1.0, arms["eager-with-sync_free"]: -1.0}
    }
    pairs = by_subject(contrasts, "a/a")
    assert pairs["eager"].weights == {arms["eager"]: 1.0, arms["eager-again"]: -1.0}
    assert pairs["full"].weights == {arms["full"]: 1.0, arms["full-again"]: -1.0}


def test_arms_only_design_knows_total_and_compile() -> None:
    cells = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))
    study = make_study(design="cells", cells=cells)
    contrasts, refusals = make_contrasts(study, make_design(study))
    measured = {c.kind for c in contrasts if c.weights}
    assert measured == {"total", "compile"}
    assert {r.kind for r in refusals} == {
        "optimization", "layer", "interaction", "leave-one-out", "add-one-in", "eager-optimization", "a/a"
    }  # fmt: skip


def test_other_levels_are_off_the_lattice() -> None:
    cells = (ExplicitCell(arm="eager"), ExplicitCell(arm="naive"), ExplicitCell(levels={"tensor_lr": "device-tensor"}))
    study = make_study(design="cells", cells=cells, factors=make_factors(["tensor_lr"]))
    contrasts, refusals = make_contrasts(study, make_design(study))
    assert Refusal(kind="total", subject="", missing=("full",)) in refusals
    assert by_subject(contrasts, "compile")[""].weights


def test_many_optimizations_do_not_blow_up() -> None:
    from dataclasses import replace

    base = make_factors(["sync_free"])[0]
    factors = tuple(replace(base, info=replace(base.info, name=f"f{i}")) for i in range(24))
    study = make_study(design="leave-one-out", factors=factors, device="cuda")
    _, refusals = make_contrasts(study, make_design(study))
    shapley = next(r for r in refusals if r.kind == "optimization")
    assert len(shapley.missing) == 12
    assert shapley.num_more == 2**24 - 26 - 12
