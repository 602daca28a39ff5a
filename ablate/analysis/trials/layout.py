"""A study and its design -> `Layout`: lattice, contrasts and named cells, worked out once for all workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ablate.core.cell import Design, DesignedCell
from ablate.core.contrast import Contrast, Refusal
from ablate.core.study import Study
from ablate.core.units import grouped
from ablate.design.contrasts import make_contrasts, order_contrasts
from ablate.design.lattice import Lattice

Arms = Mapping[str, tuple[DesignedCell, tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a design asks of every workload.

    Attributes:
        orders: What each optimization adds in every place of every order.
        arms: Effective keys that have an arm name -> the cell that is measured, and all arm names of the key.
    """

    study: Study
    design: Design
    lattice: Lattice
    contrasts: tuple[Contrast, ...]
    refusals: tuple[Refusal, ...]
    orders: Mapping[str, tuple[Contrast, ...]]
    arms: Arms

    @classmethod
    def of(cls, study: Study, design: Design) -> Layout:
        contrasts, refusals = make_contrasts(study, design)
        return cls(
            study=study,
            design=design,
            lattice=Lattice.of(study, design),
            contrasts=tuple(contrasts),
            refusals=tuple(refusals),
            orders=order_contrasts(study, design),
            arms=_named_keys(design),
        )

    def key_of(self, arm: str) -> str | None:
        """Effective key of an arm; None when the design has none of that name."""
        return next((key for key, (_, names) in self.arms.items() if arm in names), None)


def _named_keys(design: Design) -> Arms:
    cells = grouped((cell.effective_key, cell) for cell in design.cells)
    names = {key: tuple(dict.fromkeys(arm for cell in same for arm in cell.arms)) for key, same in cells.items()}
    return {key: (cells[key][0], arms) for key, arms in names.items() if arms}
