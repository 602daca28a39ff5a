"""Cells with a level beside off and on -> plain contrasts of that level against off and against on, all else equal.

A study and its design -> every number the report may state, as weights on the log times of effective keys.

What a design cannot identify comes back as a `Refusal` that names the missing cells. All weights are worked out as
fractions, so that terms that cancel (aliases of an inert optimization) vanish exactly.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations

from ablate.core.cell import Design
from ablate.core.contrast import Contrast, ContrastKind, Refusal
from ablate.core.study import Factor, Study
from ablate.design.fraction import fraction_contrasts
from ablate.design.game import (
    Subset,
    difference,
    interaction_weights,
    moebius_weights,
    shapley_weights,
    subsets_of,
    union,
)
from ablate.design.lattice import Lattice, between, switched_on_in


def level_contrasts(study: Study, design: Design, lattice: Lattice) -> Iterator[Contrast | Refusal]:
    """Compare each compiled cell that has exactly one further level with its neighbors on the lattice.

    A further level has no named off-on pair, so it has no Shapley value; positive = faster than the neighbor.
    """
    for designed in design.cells:
        cell = designed.cell
        if cell.execution != "compiled" or cell.repeat:
            continue
        further = [
            f for f in study.varying
            if f.name in lattice.active and cell.levels.get(f.name, f.off) not in (f.off, f.on)
        ]  # fmt: skip
        others = switched_on_in(study, designed, lattice.active - {f.name for f in further})
        if len(further) == 1 and others is not None:
            level = cell.levels[further[0].name]
            yield from _against_neighbors(further[0], level, designed.effective_key, others, lattice)


def _against_neighbors(
    factor: Factor, level: str, key: str, others: frozenset[str], lattice: Lattice
) -> Iterator[Contrast | Refusal]:
    for neighbor, switched_on in ((factor.off, others), (factor.on, others | {factor.name})):
        name = lattice.cell_name(switched_on)
        subject = f"{factor.name}: {level} against {neighbor} ({name})"
        yield _gain("level", subject, (name, lattice.compiled.get(switched_on)), (level, key))


JOINED = " × "


def make_contrasts(study: Study, design: Design) -> tuple[list[Contrast], list[Refusal]]:
    """Work out every contrast of a design.

    Args:
        study: Its varying factors, in the guide's order, span the lattice of compiled cells.
        design: Cells with effective keys; a lattice cell counts as present when its effective key is.

    Returns:
        Contrasts (total, compile, optimizations, layers, pairs, Moebius terms, leave-one-out, add-one-in, ladder,
        further levels, eager optimizations, A/A pairs, in this order) and the refusals for those that miss cells.
    """
    lattice = Lattice.of(study, design)
    attribution = (
        fraction_contrasts(lattice, layers_of(lattice.factors))
        if design.kind == "fraction" and not lattice.is_complete
        else chain(_attributions(lattice), _interactions(lattice), _moebius(lattice))
    )
    results = list(
        chain(
            _references(lattice),
            attribution,
            _single_switches(lattice),
            _ladder(lattice, design),
            level_contrasts(study, design, lattice),
            _eager_optimizations(lattice),
            _pairs(lattice),
        )
    )
    return [r for r in results if isinstance(r, Contrast)], [r for r in results if isinstance(r, Refusal)]


def order_contrasts(study: Study, design: Design) -> dict[str, tuple[Contrast, ...]]:
    """What each optimization adds in every place of every order: one ladder step per set of others that may precede.

    Returns:
        `2**(n-1)` contrasts per acting optimization; empty when the design lacks a cell of the lattice.
    """
    lattice = Lattice.of(study, design)
    if not lattice.is_complete:
        return {}
    found = {}
    for name in lattice.acting:
        others = [other for other in lattice.acting if other != name]
        steps = (lattice.contrast("ladder", name, difference(before, before | {name})) for before in subsets_of(others))
        found[name] = tuple(step for step in steps if isinstance(step, Contrast))
    return found


def layers_of(factors: Sequence[Factor]) -> dict[str, Subset]:
    """Layers present among the factors, in order of first appearance -> their optimizations."""
    layers: dict[str, Subset] = {}
    for factor in factors:
        layers[factor.info.layer] = layers.get(factor.info.layer, frozenset()) | {factor.name}
    return layers


def _references(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    eager = lattice.eager.get(frozenset())
    ends: dict[ContrastKind, Subset] = {"total": lattice.active, "compile": frozenset()}
    for kind, on in ends.items():
        yield _gain(kind, "", ("eager", eager), (lattice.cell_name(on), lattice.compiled.get(on)))


def _gain(
    kind: ContrastKind, subject: str, before: tuple[str, str | None], after: tuple[str, str | None]
) -> Contrast | Refusal:
    """The gain from one cell to another, each by its name and its effective key; None as a key is no cell of these."""
    if before[1] is None or after[1] is None:
        missing = tuple(name for name, key in (before, after) if key is None)
        return Refusal(kind=kind, subject=subject, missing=missing)
    return between(kind, subject, before[1], after[1])


def _attributions(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    singles = {name: frozenset({name}) for name in lattice.names}
    yield from _game(lattice, "optimization", singles)
    yield from _game(lattice, "layer", layers_of(lattice.factors))


def _game(lattice: Lattice, kind: ContrastKind, players: Mapping[str, Subset]) -> Iterator[Contrast | Refusal]:
    """Shapley values of a game; players that cannot act are dummies and leave the others' values as they are."""
    acting = {name: members & lattice.active for name, members in players.items() if members & lattice.active}
    needed = 2 ** len(acting)
    enough = needed <= len(lattice.compiled)
    coalitions = list(acting.values())
    for name, members in players.items():
        if name not in acting:
            yield lattice.inert(kind, name, members)
        elif enough:
            yield lattice.contrast(kind, name, shapley_weights(coalitions, list(acting).index(name)))
        else:
            present = sum(1 for subset in lattice.compiled if _is_union(subset, coalitions))
            yield lattice.refusal(kind, name, _unions(coalitions), needed - present)


def _interactions(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    """Shapley interaction index of every pair of acting optimizations; one refusal when cells are missing."""
    players = [frozenset({name}) for name in lattice.acting]
    if not lattice.is_complete and len(players) > 1:
        yield lattice.refusal("interaction", "", _unions(players), 2 ** len(players) - len(lattice.compiled))
        return
    for first, second in combinations(range(len(players)), 2):
        subject = JOINED.join((lattice.acting[first], lattice.acting[second]))
        yield lattice.contrast("interaction", subject, interaction_weights(players, first, second))


def _moebius(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    """Moebius terms of two or more optimizations; those of one are add-one-in."""
    if lattice.is_complete:
        for subset in subsets_of(lattice.acting):
            if len(subset) > 1:
                subject = JOINED.join(name for name in lattice.acting if name in subset)
                yield lattice.contrast("moebius", subject, moebius_weights(subset))


def _single_switches(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    every: Subset = lattice.active
    singles = {name: frozenset({name}) for name in lattice.names}
    for name, one in singles.items():
        yield lattice.effect("leave-one-out", name, one, difference(every - one, every))
    for name, one in singles.items():
        yield lattice.effect("add-one-in", name, one, difference(frozenset(), one))


def _ladder(lattice: Lattice, design: Design) -> Iterator[Contrast | Refusal]:
    if design.kind not in ("ladder", "factorial"):
        return
    below: Subset = frozenset()
    for name in lattice.names:
        one = frozenset({name})
        yield lattice.effect("ladder", name, one, difference(below, below | one))
        below |= one & lattice.active


def _eager_optimizations(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    """Optimizations that act without compilation; those that do not are no question in eager mode."""
    reference = lattice.eager.get(frozenset())
    for name in lattice.names:
        if name in lattice.eager_active:
            switched = (f"eager-with-{name}", lattice.eager.get(frozenset({name})))
            yield _gain("eager-optimization", name, ("eager", reference), switched)


def _pairs(lattice: Lattice) -> Iterator[Contrast | Refusal]:
    for arm in ("eager", "full"):
        first, again = lattice.repeats.get(arm, ("", None))
        yield _gain("a/a", arm, (arm, first), (f"{arm}-again", again))


def _unions(players: Sequence[Subset]) -> Iterator[Subset]:
    for size in range(len(players) + 1):
        for chosen in combinations(players, size):
            yield union(iter(chosen))


def _is_union(subset: Subset, players: Sequence[Subset]) -> bool:
    return all(not (members & subset) or members <= subset for members in players)
