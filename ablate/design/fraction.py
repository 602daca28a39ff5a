"""A half fraction of the lattice -> effects that hold when no three optimizations interact, their aliases, and a check.

The half is `I = ABC...` over the optimizations that act in compiled cells, off = -1 and on = +1 (`full` is in it). For
five it has 16 cells; with the naive cell, which is not in it, and eager a block has 18. A main effect shares its column
with the interaction of all others, a pair with that of the rest. If no three or more interact, the main effect is the
Shapley value and the pair the Shapley interaction index. The naive cell checks that: what the sum of the Shapley values
leaves unexplained between naive and full is the lack of fit, so compile term, Shapley values and lack of fit still
add up to the total in every block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ablate.core.contrast import Contrast, Refusal
from ablate.design.game import Subset, Weights, column_weights, combined, difference, half_fraction
from ablate.design.lattice import Lattice

FEWEST_ACTING = 4
JOINED, ADDED = " × ", " + "
ASSUMES = "no interaction of three or more optimizations"


@dataclass(frozen=True, kw_only=True)
class Alias:
    """A column of the fraction: two effects that it cannot tell apart, each by its optimizations, the shorter first."""

    reported: tuple[str, ...]
    together_with: tuple[str, ...]

    def __str__(self) -> str:
        return f"{JOINED.join(self.reported)} = {JOINED.join(self.together_with)}"


def alias_table(names: Sequence[str]) -> tuple[Alias, ...]:
    """Every column of the half fraction with up to two names, and what shares it.

    Args:
        names: The acting optimizations, in spec order.
    """
    every = frozenset(names)
    words: list[Subset] = [frozenset({name}) for name in names]
    words += [frozenset(pair) for pair in combinations(names, 2)]
    found: list[Alias] = []
    seen: set[Subset] = set()
    for word in words:
        if word not in seen:
            seen |= {word, every - word}
            found.append(Alias(reported=_in_order(word, names), together_with=_in_order(every - word, names)))
    return tuple(found)


def fraction_contrasts(lattice: Lattice, layers: Mapping[str, Subset]) -> Iterator[Contrast | Refusal]:
    """Main effects, layers, pairs and the lack of fit of a design that holds the half fraction.

    Args:
        lattice: The measured cells.
        layers: Optimizations of each layer; the Shapley value of a layer is the sum over its optimizations when no
            three interact.
    """
    names = lattice.acting
    half = half_fraction(names)
    main = {name: column_weights(half, frozenset({name}), 2) for name in names}
    for name in lattice.names:
        yield lattice.effect("optimization", name, frozenset({name}), main.get(name, {}), assumes=ASSUMES)
    for layer, members in layers.items():
        weights = combined(*(main[name] for name in names if name in members))
        yield lattice.effect("layer", layer, members, weights, assumes=ASSUMES)
    for alias in alias_table(names):
        if len(alias.reported) == 2:
            yield _pair(lattice, half, alias)
    yield from _lack_of_fit(lattice, main)


def _pair(lattice: Lattice, half: Sequence[Subset], alias: Alias) -> Contrast | Refusal:
    """A pair; with four optimizations only the sum of two pairs is known, and the subject says so."""
    pairs = [members for members in (alias.reported, alias.together_with) if len(members) == 2]
    subject = ADDED.join(map(JOINED.join, pairs))
    weights = column_weights(half, frozenset(alias.reported), 4)
    return lattice.contrast("interaction", subject, weights, assumes=ASSUMES)


def _lack_of_fit(lattice: Lattice, main: Mapping[str, Weights]) -> Iterator[Contrast | Refusal]:
    """`log T[naive] - log T[full]` minus the Shapley values: 0 when no three interact; nothing where it must be 0."""
    explained = combined(*main.values())
    minus = {subset: -weight for subset, weight in explained.items()}
    left = combined(difference(frozenset(), lattice.active), minus)
    if left:
        yield lattice.contrast("lack-of-fit", "", left)


def _in_order(word: Subset, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in word)
