"""A study and its design -> `Lattice`: which on-off settings of the varying optimizations have a measured cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

from ablate.core.cell import Design, DesignedCell, Execution
from ablate.core.contrast import Contrast, ContrastKind, Refusal
from ablate.core.study import Factor, Study
from ablate.design.game import Subset, Weights, combined

MISSING_NAMED = 12
INERT = "it cannot act in any compiled cell of this study"
SAME_CELLS = "the cells that it compares train the same"


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """The cells in which every varying factor is off or on, by what is on (inert ones left out)."""

    factors: tuple[Factor, ...]
    active: Subset
    eager_active: Subset
    why_inert: Mapping[str, str]
    compiled: Mapping[Subset, str]
    eager: Mapping[Subset, str]
    repeats: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, study: Study, design: Design) -> Lattice:
        acts = {"compiled": _acting(study, design, "compiled"), "eager": _acting(study, design, "eager")}
        reasons: dict[str, str] = {}
        indices: dict[str, dict[Subset, str]] = {"compiled": {}, "eager": {}}
        again: dict[tuple[str, Subset], str] = {}
        for designed in design.cells:
            mode = designed.cell.execution
            if mode == "compiled":
                reasons |= designed.inert
            switched_on = switched_on_in(study, designed, acts[mode])
            if switched_on is None:
                continue
            if designed.cell.repeat:
                again.setdefault((mode, switched_on), designed.effective_key)
            else:
                indices[mode].setdefault(switched_on, designed.effective_key)
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
    def acting(self) -> tuple[str, ...]:
        """Names of the optimizations that act in compiled cells, in spec order."""
        return tuple(name for name in self.names if name in self.active)

    @property
    def is_complete(self) -> bool:
        """Whether every on-off setting of the acting optimizations is measured."""
        return len(self.compiled) == 1 << len(self.active)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.factors)

    def contrast(self, kind: ContrastKind, subject: str, weights: Weights, *, assumes: str = "") -> Contrast | Refusal:
        """Add up the weights of the compiled cells that share an effective key."""
        by_key: dict[str, Fraction] = {}
        missing: list[str] = []
        acting = (({switched_on & self.active: weight}) for switched_on, weight in weights.items())
        for switched_on, weight in combined(*acting).items():
            key = self.compiled.get(switched_on)
            if key is None:
                missing.append(self.cell_name(switched_on))
            else:
                by_key[key] = by_key.get(key, Fraction(0)) + weight
        if missing:
            return _refusal(kind, subject, iter(missing), len(missing))
        return make_contrast(kind, subject, by_key, assumes=assumes)

    def effect(
        self, kind: ContrastKind, subject: str, members: Subset, weights: Weights, *, assumes: str = ""
    ) -> Contrast | Refusal:
        """The contrast of an optimization or a layer of them; 0 with its reason where none of its `members` can act."""
        if members & self.active:
            return self.contrast(kind, subject, weights, assumes=assumes)
        return self.inert(kind, subject, members)

    def inert(self, kind: ContrastKind, subject: str, members: Subset) -> Contrast:
        reasons = dict.fromkeys(self.why_inert[name] for name in self.names if name in members)
        return Contrast(kind=kind, subject=subject, why_inert="; ".join(reasons))

    def refusal(self, kind: ContrastKind, subject: str, needed: Iterator[Subset], count: int) -> Refusal:
        """Refuse a number that lacks `count` of the cells it needs."""
        return _refusal(kind, subject, (self.cell_name(s) for s in needed if s not in self.compiled), count)

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


def _acting(study: Study, design: Design, mode: Execution) -> Subset:
    """The varying optimizations that act in some cell of an execution mode, as far as the design has cells of it."""
    cells = [designed for designed in design.cells if designed.cell.execution == mode]
    acting = (f.name for f in study.acting(mode) if f.on != f.off)
    return frozenset(name for name in acting if not cells or any(name not in cell.inert for cell in cells))


def switched_on_in(study: Study, designed: DesignedCell, active: Subset) -> Subset | None:
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


def between(kind: ContrastKind, subject: str, before: str, after: str) -> Contrast:
    """The gain from one effective key to another; 0 by construction when they are one."""
    return make_contrast(kind, subject, {} if before == after else {before: Fraction(1), after: Fraction(-1)})


def make_contrast(kind: ContrastKind, subject: str, weights: Mapping[str, Fraction], *, assumes: str = "") -> Contrast:
    """A contrast without its zero weights; one that has no other is 0 by construction."""
    kept = {key: float(weight) for key, weight in weights.items() if weight}
    why_inert = None if kept else SAME_CELLS
    return Contrast(kind=kind, subject=subject, weights=kept, why_inert=why_inert, assumes=assumes)


def _refusal(kind: ContrastKind, subject: str, names: Iterator[str], count: int) -> Refusal:
    shown = tuple(islice(names, MISSING_NAMED))
    return Refusal(kind=kind, subject=subject, missing=shown, num_more=count - len(shown))
