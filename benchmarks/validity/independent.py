"""Random games -> the largest difference between our weights and shapiq, an independent implementation (dev extra)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ablate.analysis.statistics.engine import Array, contrast_values, weight_matrix
from ablate.design.game import Subset, Weights, interaction_weights, moebius_weights, shapley_weights, subsets_of
from benchmarks.validity import constants as c

SIZES = (2, 3, 4, 5, 6)
GROUPS = {3: ((0, 1), (2,)), 4: ((0, 3), (1,), (2,)), 5: ((0, 1), (2, 3), (4,)), 6: ((0, 5), (1, 2, 3), (4,))}


def largest_differences() -> dict[str, float]:
    """Largest absolute difference over games of 2 to 6 optimizations, by kind of number."""
    generator = np.random.default_rng([c.SEED, 1])
    found = {"Shapley values": 0.0, "layers": 0.0, "pair interactions": 0.0, "Moebius terms": 0.0}
    for num in SIZES:
        names = [f"f{index}" for index in range(num)]
        subsets = list(subsets_of(names))
        y_C = generator.normal(2.0, 0.5, len(subsets))
        singles = [frozenset({name}) for name in names]
        for kind, difference in _differences(subsets, y_C, singles).items():
            found[kind] = max(found[kind], difference)
        groups = [frozenset(names[i] for i in members) for members in GROUPS.get(num, ())]
        if groups:
            found["layers"] = max(found["layers"], _shapley_difference(subsets, y_C, groups))
    return found


def _differences(subsets: Sequence[Subset], y_C: Array, players: Sequence[Subset]) -> dict[str, float]:
    pairs = list(combinations(range(len(players)), 2))
    ours = _apply([interaction_weights(players, *pair) for pair in pairs], subsets, y_C)
    theirs = _shapiq(subsets, y_C, players, "SII", 2)
    terms = [chosen for size in range(1, len(players) + 1) for chosen in combinations(range(len(players)), size)]
    ours_m = _apply([moebius_weights(frozenset().union(*(players[i] for i in t))) for t in terms], subsets, y_C)
    theirs_m = _shapiq(subsets, y_C, players, "Moebius", len(players))
    return {
        "Shapley values": _shapley_difference(subsets, y_C, players),
        "pair interactions": max(abs(ours[k] - theirs[pair]) for k, pair in enumerate(pairs)),
        "Moebius terms": max(abs(ours_m[k] - theirs_m[term]) for k, term in enumerate(terms)),
    }


def _shapley_difference(subsets: Sequence[Subset], y_C: Array, players: Sequence[Subset]) -> float:
    ours = _apply([shapley_weights(players, i) for i in range(len(players))], subsets, y_C)
    theirs = _shapiq(subsets, y_C, players, "SV", 1)
    return float(max(abs(ours[i] - theirs[(i,)]) for i in range(len(players))))


def _apply(weights: Sequence[Weights], subsets: Sequence[Subset], y_C: Array) -> Array:
    keys = [",".join(sorted(subset)) for subset in subsets]
    matrix = weight_matrix([{",".join(sorted(s)): float(weight) for s, weight in row.items()} for row in weights], keys)
    return contrast_values(matrix, y_C[:, None])[:, 0]


def _shapiq(
    subsets: Sequence[Subset], y_C: Array, players: Sequence[Subset], index: str, order: int
) -> dict[tuple[int, ...], float]:
    import shapiq

    place = {subset: row for row, subset in enumerate(subsets)}

    def value(coalitions: np.ndarray) -> np.ndarray:
        on = [frozenset().union(*(players[i] for i in np.flatnonzero(row))) for row in np.atleast_2d(coalitions)]
        return np.array([y_C[place[frozenset()]] - y_C[place[subset]] for subset in on])

    found = shapiq.ExactComputer(value, n_players=len(players))(index, order=order)
    return {key: float(found[key]) for key in found.interaction_lookup}
