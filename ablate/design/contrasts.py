"""A study and its design -> every number the report may state, as weights on the log times of effective keys.

What a design cannot identify comes back as a `Refusal` that names the missing cells. All weights are worked out as
fractions, so that terms that cancel (aliases of an inert optimization) vanish exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations, islice
from math import comb

from ablate.core.cell import Design, DesignedCell
from ablate.core.contrast import Contrast, ContrastKind, Refusal
from ablate.core.study import Factor, Study

MISSING_NAMED = 12
Subset = frozenset[str]
Weights = dict[Subset, Fraction]
INERT = "it cannot act in any compiled cell of this study"
SAME_LEVEL = "its on level and its off level are the same in this study"


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
    weights: Weights = {}
    for size in range(len(others) + 1):
        share = Fraction(1, len(players) * comb(len(others), size))
        for coalition in combinations(others, size):
            without: Subset = frozenset(chain.from_iterable(players[index] for index in coalition))
            _add(weights, without, share)
            _add(weights, without | players[player], -share)
    return weights


def difference(slower: Subset, faster: Subset) -> Weights:
    """Weights of `log T[slower] - log T[faster]`: positive when the second is faster."""
    weights: Weights = {}
    _add(weights, slower, Fraction(1))
    _add(weights, faster, Fraction(-1))
    return weights


def make_contrasts(study: Study, design: Design) -> tuple[list[Contrast], list[Refusal]]:
    """Work out every contrast of a design.

    Args:
        study: Its varying factors, in the guide's order, span the lattice of compiled cells.
        design: Cells with effective keys; a lattice cell counts as present when its effective key is.

    Returns:
        Contrasts (total, compile, optimizations, layers, leave-one-out, add-one-in, ladder, eager optimizations, A/A
        pairs, in this order) and the refusals for those that miss cells.
    """
    lattice = _Lattice.of(study, design)
    results = list(
        chain(
            _references(lattice),
            _attributions(lattice),
            _single_switches(lattice),
            _ladder(lattice, design),
            _eager_optimizations(lattice),
            _pairs(lattice),
        )
    )
    return [r for r in results if isinstance(r, Contrast)], [r for r in results if isinstance(r, Refusal)]


def layers_of(factors: Sequence[Factor]) -> dict[str, Subset]:
    """Layers present among the factors, in order of first appearance -> their optimizations."""
    layers: dict[str, Subset] = {}
    for factor in factors:
        layers[factor.info.layer] = layers.get(factor.info.layer, frozenset()) | {factor.name}
    return layers


@dataclass(frozen=True, kw_only=True)
class _Lattice:
    """The cells in which every varying factor is off or on, by what is on (inert ones left out)."""

    factors: tuple[Factor, ...]
    active: Subset
    eager_active: Subset
    why_inert: Mapping[str, str]
    compiled: Mapping[Subset, str]
    eager: Mapping[Subset, str]
    repeats: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, study: Study, design: Design) -> _Lattice:
        acts = {
            mode: frozenset(
                f.name
                for f in study.varying
                if f.on != f.off
                and f.info.acts_in(execution=mode, compile_step=study.compile_step, device=study.device)
            )
            for mode in ("compiled", "eager")
        }
        reasons: dict[str, str] = {}
        indices: dict[str, dict[Subset, str]] = {"compiled": {}, "eager": {}}
        again: dict[tuple[str, Subset], str] = {}
        for designed in design.cells:
            mode = designed.cell.execution
            if mode == "compiled":
                reasons |= designed.inert
            switched_on = _switched_on(study, designed, acts[mode])
            if switched_on is None:
                continue
            if designed.cell.repeat:
                again.setdefault((mode, switched_on), designed.effective_key)
            else:
                indices[mode].setdefault(switched_on, designed.effective_key)
        reasons |= {f.name: SAME_LEVEL for f in study.varying if f.on == f.off}
        names = frozenset(f.name for f in study.varying)
        ends = {"eager": ("eager", frozenset[str]()), "full": ("compiled", acts["compiled"])}
        return cls(
            factors=study.varying,
            active=acts["compiled"],
            eager_active=acts["eager"],
            why_inert={name: reasons.get(name, INERT) for name in names - acts["compiled"]},
            compiled=indices["compiled"],
            eager=indices["eager"],
            repeats={
                arm: (indices[mode][what], again[mode, what])
                for arm, (mode, what) in ends.items()
                if what in indices[mode] and (mode, what) in again
            },
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    def contrast(self, kind: ContrastKind, subject: str, weights: Weights) -> Contrast | Refusal:
        """Add up the weights of the compiled cells that share an effective key."""
        by_key: dict[str, Fraction] = {}
        missing: list[str] = []
        for switched_on, weight in self._reduced(weights).items():
            key = self.compiled.get(switched_on)
            if key is None:
                missing.append(self.cell_name(switched_on))
            else:
                by_key[key] = by_key.get(key, Fraction(0)) + weight
        if missing:
            return Refusal(kind=kind, subject=subject, missing=_shortened(iter(missing), len(missing)))
        return _contrast(kind, subject, by_key)

    def inert(self, kind: ContrastKind, subject: str, members: Subset) -> Contrast:
        reasons = dict.fromkeys(self.why_inert[name] for name in self.names if name in members)
        return Contrast(kind=kind, subject=subject, why_inert="; ".join(reasons))

    def missing_of(self, subsets: Iterator[Subset], count: int) -> tuple[str, ...]:
        absent = (self.cell_name(s) for s in subsets if s not in self.compiled)
        return _shortened(absent, count)

    def cell_name(self, switched_on: Subset) -> str:
        """Name of a compiled cell as the report writes it, by the optimizations that are on and can act."""
        if switched_on == self.active:
            return "full"
        if not switched_on:
            return "naive"
        if len(self.active - switched_on) == 1:
            return f"without-{next(iter(self.active - switched_on))}"
        if len(switched_on) == 1:
            return f"with-{next(iter(switched_on))}"
        return " ".join(["compiled", *(f"+{name}" for name in self.names if name in switched_on)])

    def _reduced(self, weights: Weights) -> Weights:
        reduced: Weights = {}
        for switched_on, weight in weights.items():
            _add(reduced, switched_on & self.active, weight)
        return {switched_on: weight for switched_on, weight in reduced.items() if weight}


def _references(lattice: _Lattice) -> Iterator[Contrast | Refusal]:
    eager = lattice.eager.get(frozenset())
    ends: dict[ContrastKind, Subset] = {"total": lattice.active, "compile": frozenset()}
    for kind, switched_on in ends.items():
        compiled = lattice.compiled.get(switched_on)
        if eager is None or compiled is None:
            needed = {"eager": eager, lattice.cell_name(switched_on): compiled}
            yield Refusal(
                kind=kind, subject="", missing=tuple(name for name, key in needed.items() if key is None)
            )
        else:
            yield _contrast(kind, "", {eager: Fraction(1), compiled: Fraction(-1)})


def _attributions(lattice: _Lattice) -> Iterator[Contrast | Refusal]:
    singles = {name: frozenset({name}) for name in lattice.names}
    yield from _game(lattice, "optimization", singles)
    yield from _game(lattice, "layer", layers_of(lattice.factors))


def _game(
    lattice: _Lattice, kind: ContrastKind, players: Mapping[str, Subset]
) -> Iterator[Contrast | Refusal]:
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
            yield Refusal(
                kind=kind, subject=name, missing=lattice.missing_of(_unions(coalitions), needed - present)
            )


def _single_switches(lattice: _Lattice) -> Iterator[Contrast | Refusal]:
    every: Subset = lattice.active
    for name in lattice.names:
        one = frozenset({name})
        if name in lattice.active:
            yield lattice.contrast("leave-one-out", name, difference(every - one, every))
        else:
            yield lattice.inert("leave-one-out", name, one)
    for name in lattice.names:
        one = frozenset({name})
        if name in lattice.active:
            yield lattice.contrast("add-one-in", name, difference(frozenset(), one))
        else:
            yield lattice.inert("add-one-in", name, one)


def _ladder(lattice: _Lattice, design: Design) -> Iterator[Contrast | Refusal]:
    if design.kind not in ("ladder", "factorial"):
        return
    below: Subset = frozenset()
    for name in lattice.names:
        one = frozenset({name})
        if name in lattice.active:
            yield lattice.contrast("ladder", name, difference(below, below | one))
        else:
            yield lattice.inert("ladder", name, one)
        below |= one & lattice.active


def _eager_optimizations(lattice: _Lattice) -> Iterator[Contrast | Refusal]:
    """Optimizations that act without compilation; those that do not are no question in eager mode."""
    reference = lattice.eager.get(frozenset())
    for name in lattice.names:
        if name not in lattice.eager_active:
            continue
        switched = lattice.eager.get(frozenset({name}))
        if reference is None or switched is None:
            needed = {"eager": reference, f"eager-with-{name}": switched}
            missing = tuple(cell for cell, key in needed.items() if key is None)
            yield Refusal(kind="eager-optimization", subject=name, missing=missing)
        else:
            yield _contrast("eager-optimization", name, {reference: Fraction(1), switched: Fraction(-1)})


def _pairs(lattice: _Lattice) -> Iterator[Contrast | Refusal]:
    for arm in ("eager", "full"):
        if arm in lattice.repeats:
            first, again = lattice.repeats[arm]
            yield _contrast("a/a", arm, {first: Fraction(1), again: Fraction(-1)})
        else:
            yield Refusal(kind="a/a", subject=arm, missing=(f"{arm}-again",))


def _switched_on(study: Study, designed: DesignedCell, active: Subset) -> Subset | None:
    """The acting optimizations that are on; None when a cell has a level beside off and on, so is off the lattice."""
    switched_on = set()
    for factor in study.factors:
        level = designed.cell.levels.get(factor.name, factor.off)
        if factor.setting != "both":
            fixed = factor.on if factor.setting == "on" else factor.off
            if designed.cell.execution == "compiled" and level != fixed:
                return None
        elif factor.name in active:
            if level not in (factor.off, factor.on):
                return None
            if level == factor.on:
                switched_on.add(factor.name)
    return frozenset(switched_on)


def _contrast(kind: ContrastKind, subject: str, weights: Mapping[str, Fraction]) -> Contrast:
    kept = {key: float(weight) for key, weight in weights.items() if weight}
    return Contrast(kind=kind, subject=subject, weights=kept, why_inert=None if kept else INERT)


def _unions(players: Sequence[Subset]) -> Iterator[Subset]:
    for size in range(len(players) + 1):
        for chosen in combinations(players, size):
            yield frozenset(chain.from_iterable(chosen))


def _is_union(subset: Subset, players: Sequence[Subset]) -> bool:
    return all(not (members & subset) or members <= subset for members in players)


def _shortened(names: Iterator[str], count: int) -> tuple[str, ...]:
    shown = tuple(islice(names, MISSING_NAMED))
    return (*shown, f"and {count - len(shown)} more") if count > len(shown) else shown


def _add(weights: Weights, subset: Subset, weight: Fraction) -> None:
    weights[subset] = weights.get(subset, Fraction(0)) + weight
