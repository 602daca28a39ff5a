"""Cells with a level beside off and on -> plain contrasts of that level against off and against on, all else equal."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ablate.core.cell import Design
from ablate.core.contrast import Contrast, Refusal
from ablate.core.study import Factor, Study
from ablate.design.lattice import Lattice, make_contrast, switched_on_in


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
        base = lattice.compiled.get(switched_on)
        if base is None:
            yield Refusal(kind="level", subject=subject, missing=(name,))
        else:
            yield make_contrast("level", subject, {base: Fraction(1), key: Fraction(-1)})
