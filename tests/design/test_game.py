"""Weights of games -> interactions and Moebius terms of lattices solved by hand, and an independent implementation."""

from __future__ import annotations

import pytest

from ablate.design.game import (
    column_weights,
    combined,
    half_fraction,
    interaction_weights,
    moebius_weights,
    shapley_weights,
)
from benchmarks.validity.independent import largest_differences

A, B, C = (frozenset({name}) for name in "abc")
TWO = {"": 4.0, "a": 3.0, "b": 3.5, "ab": 1.0}
THREE = {"": 10.0, "a": 9.0, "b": 8.0, "c": 10.0, "ab": 6.0, "ac": 8.0, "bc": 7.0, "abc": 3.0}


def value(weights: object, y: dict[str, float]) -> float:
    assert isinstance(weights, dict)
    return sum(float(w) * y["".join(sorted(on))] for on, w in weights.items())


def test_two_optimizations_by_hand() -> None:
    # v: a 1.0, b 0.5, ab 3.0; together 3.0 - 1.0 - 0.5 = 1.5 more than one by one
    assert value(interaction_weights([A, B], 0, 1), TWO) == pytest.approx(1.5, abs=1e-12)
    assert value(moebius_weights(A | B), TWO) == pytest.approx(1.5, abs=1e-12)
    assert value(moebius_weights(A), TWO) == pytest.approx(1.0, abs=1e-12)
    # phi = own Moebius term + half of the pair
    assert value(shapley_weights([A, B], 0), TWO) == pytest.approx(1.0 + 0.75, abs=1e-12)
    assert value(shapley_weights([A, B], 1), TWO) == pytest.approx(0.5 + 0.75, abs=1e-12)


def test_three_optimizations_by_hand() -> None:
    # v: a 1, b 2, c 0, ab 4, ac 2, bc 3, abc 7
    # ab without c: 4-1-2 = 1; with c: 7-2-3+0 = 2; weights 0!1!/2! = 1!0!/2! = 1/2
    assert value(interaction_weights([A, B, C], 0, 1), THREE) == pytest.approx(1.5, abs=1e-12)
    # ac without b: 2-1-0 = 1; with b: 7-4-3+2 = 2
    assert value(interaction_weights([A, B, C], 0, 2), THREE) == pytest.approx(1.5, abs=1e-12)
    # bc without a: 3-2-0 = 1; with a: 7-4-2+1 = 2
    assert value(interaction_weights([A, B, C], 1, 2), THREE) == pytest.approx(1.5, abs=1e-12)
    # m(abc) = 7 - 4 - 2 - 3 + 1 + 2 + 0 = 1; pairs are 1 each, so the interaction index is 1 + 1/2
    assert value(moebius_weights(A | B | C), THREE) == pytest.approx(1.0, abs=1e-12)
    assert value(moebius_weights(A | B), THREE) == pytest.approx(1.0, abs=1e-12)
    # phi_a = 1 + (1 + 1)/2 + 1/3
    assert value(shapley_weights([A, B, C], 0), THREE) == pytest.approx(1 + 1 + 1 / 3, abs=1e-12)


def test_interaction_of_layers_by_hand() -> None:
    # layers {a, b} (v 4) and {c} (v 0), together 7
    assert value(interaction_weights([A | B, C], 0, 1), THREE) == pytest.approx(3.0, abs=1e-12)


def test_variances_are_those_of_the_specification() -> None:
    players = [frozenset({name}) for name in "abcde"]
    pair = interaction_weights(players, 0, 1)
    assert sum(float(w) ** 2 for w in pair.values()) == pytest.approx(2 / 3, abs=1e-12)  # .667


def test_half_of_five_and_of_four_by_hand() -> None:
    five = half_fraction("abcde")
    assert len(five) == 16 and {len(s) for s in five} == {1, 3, 5}
    four = half_fraction("abcd")
    assert len(four) == 8 and {len(s) for s in four} == {0, 2, 4}
    weights = column_weights(four, A, 2)  # mean of the four cells without a minus mean of the four with it
    assert {float(w) for s, w in weights.items() if "a" in s} == {-0.25}
    assert {float(w) for s, w in weights.items() if "a" not in s} == {0.25}


def test_weights_that_cancel_vanish() -> None:
    one = shapley_weights([A, B], 0)
    assert combined(one, {subset: -weight for subset, weight in one.items()}) == {}


def test_an_independent_implementation_agrees() -> None:
    pytest.importorskip("shapiq")
    found = largest_differences()
    assert set(found) == {"Shapley values", "layers", "pair interactions", "Moebius terms"}
    assert max(found.values()) < 1e-10
