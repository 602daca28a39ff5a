"""Players (optimizations, or layers of them) -> weights of Shapley values, interactions and Moebius terms.

Every number is a sum of weights times `y[S]`, the log time of the cell in which exactly the optimizations `S` are on.
The value of a coalition is `v(S) = y[none] - y[S]`: positive = faster. Weights are exact fractions.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from math import comb, prod

Subset = frozenset[str]
Weights = dict[Subset, Fraction]


def shapley_weights(players: Sequence[Subset], player: int) -> Weights:
    """Weights of the Shapley value of one player on the log times of the cells of a game.

    A coalition of players switches on the union of their optimizations. With `n` players and a coalition `S` of the
    others, `g(|S|) = 1 / (n * C(n - 1, |S|))`; the value is `sum_S g(|S|) * (y[S] - y[S + player])`, positive = faster.

    Args:
        players: The optimizations that each player switches together (single ones, or layers); disjoint.
        player: Index of the player asked about.

    Returns:
        Weight per set of optimizations that are on; `2**n` entries.
    """
    others = [index for index in range(len(players)) if index != player]
    weights: Weights = defaultdict(Fraction)
    for size in range(len(others) + 1):
        share = Fraction(1, len(players) * comb(len(others), size))
        for coalition in combinations(others, size):
            without = union(players[index] for index in coalition)
            weights[without] += share
            weights[without | players[player]] -= share
    return weights


def interaction_weights(players: Sequence[Subset], first: int, second: int) -> Weights:
    """Weights of the Shapley interaction index of two players (Grabisch and Roubens 1999).

    `sum over S without both of |S|! (n - 2 - |S|)! / (n - 1)! * [v(S+ij) - v(S+i) - v(S+j) + v(S)]`; positive: they
    gain more together than one by one.

    Args:
        players: As in `shapley_weights`.
        first, second: Indices of the pair.
    """
    others = [index for index in range(len(players)) if index not in (first, second)]
    one, two = players[first], players[second]
    weights: Weights = defaultdict(Fraction)
    for size in range(len(others) + 1):
        share = Fraction(1, (len(players) - 1) * comb(len(others), size))
        for coalition in combinations(others, size):
            base = union(players[index] for index in coalition)
            for subset, sign in ((base | one | two, -1), (base | one, 1), (base | two, 1), (base, -1)):
                weights[subset] += sign * share
    return weights


def moebius_weights(members: Subset) -> Weights:
    """Weights of the Moebius term `m(S) = sum over T within S of (-1)^(|S| - |T|) v(T)`, for a set that is not empty.

    What `S` gains together beyond everything its parts explain; `v(S)` is the sum of the terms of all its subsets.
    """
    return {s: Fraction(-((-1) ** (len(members) - len(s)))) for s in subsets_of(sorted(members))}


def difference(slower: Subset, faster: Subset) -> Weights:
    """Weights of `log T[slower] - log T[faster]`: positive when the second is faster."""
    return combined({slower: Fraction(1)}, {faster: Fraction(-1)})


def half_fraction(names: Sequence[str]) -> tuple[Subset, ...]:
    """The half of all on-off settings with `I = ABC...` (all names in one word, off = -1, on = +1): full is in it.

    For five names these are the 16 settings with an odd number on; a main effect shares its column with the
    interaction of the four others, a pair with that of the three others (Box, Hunter and Hunter 2005, chapter 6).
    """
    return tuple(s for s in subsets_of(names) if (len(names) - len(s)) % 2 == 0)


def column_weights(half: Sequence[Subset], word: Subset, factor: int) -> Weights:
    """Weights of a column of a two-level design: `-factor / cells * product of the signs of the word` per cell.

    `factor = 2` gives the main effect of one optimization as a gain, `factor = 4` the pair's (both as sums with
    whatever shares the column).
    """
    return {s: Fraction(-factor * prod(1 if name in s else -1 for name in word), len(half)) for s in half}


def combined(*parts: Mapping[Subset, Fraction]) -> Weights:
    """Sum of weights; those that cancel are removed."""
    weights: Weights = defaultdict(Fraction)
    for part in parts:
        for subset, weight in part.items():
            weights[subset] += weight
    return {subset: weight for subset, weight in weights.items() if weight}


def subsets_of(names: Sequence[str]) -> Iterator[Subset]:
    """Every subset, small ones first."""
    return (frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size))


def union(parts: Iterator[Subset]) -> Subset:
    return frozenset(chain.from_iterable(parts))
