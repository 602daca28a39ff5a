"""Two studies of five optimizations (all act; one is inert) -> keys, contrasts as a matrix, and the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ablate.analysis.statistics.engine import Array, weight_matrix
from ablate.core.cell import Design, DesignedCell
from ablate.core.contrast import Contrast
from ablate.core.study import Equivalence, Factor, LoaderOptions, Study, Timing, Training, WorkloadChoice
from ablate.design.cells import make_design
from ablate.design.contrasts import make_contrasts
from ablate.plugins.registry import make_catalog
from benchmarks.validity.constants import COMPILE, TRUE_PAIRS, TRUE_SHAPLEY, TRUE_TRIPLES


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """What one kind of study measures.

    Attributes:
        cells: One designed cell per effective key, in measured order.
        contrasts: Those with weights.
        weights_KC: Their weights on the cells.
        on_FC: Which optimizations are on and can act, by `names`, shape (optimizations, C).
        truth_C: Noiseless log time of every cell.
    """

    names: tuple[str, ...]
    cells: tuple[DesignedCell, ...]
    contrasts: tuple[Contrast, ...]
    weights_KC: Array
    on_FC: Array
    truth_C: Array

    @property
    def truth_K(self) -> Array:
        """Noiseless effects."""
        return self.weights_KC @ self.truth_C

    def rows(self, kind: str) -> list[int]:
        """Places of the contrasts of one kind."""
        return [index for index, contrast in enumerate(self.contrasts) if contrast.kind == kind]

    def row(self, kind: str, subject: str = "") -> int:
        """Place of one contrast."""
        return next(i for i, c in enumerate(self.contrasts) if (c.kind, c.subject) == (kind, subject))


def make_lattice(*, device: Literal["cpu", "cuda"], is_null: bool = False) -> Lattice:
    """Lay out a factorial study of the five optimizations; on a CPU one of them cannot act.

    Args:
        device: Device that the design is for.
        is_null: Every effect is 0, the compile term included.
    """
    study = make_study(device)
    design = make_design(study)
    first: dict[str, DesignedCell] = {}
    for cell in design.cells:
        first.setdefault(cell.effective_key, cell)
    contrasts = tuple(c for c in make_contrasts(study, design)[0] if c.weights)
    names = tuple(f.name for f in study.varying)
    cells = tuple(first.values())
    on_FC = np.array([[float(n in c.on and n not in c.inert) for c in cells] for n in names])
    return Lattice(
        names=names,
        cells=cells,
        contrasts=contrasts,
        weights_KC=weight_matrix([c.weights for c in contrasts], list(first)),
        on_FC=on_FC,
        truth_C=np.zeros(len(cells)) if is_null else np.array([_log_time(cell) for cell in cells]),
    )


def copied_cells(lattice: Lattice, study: Study, design: Design) -> tuple[Array, Array]:
    """The mistake of copying a measurement into every row that shares it.

    Returns:
        Row of the measured cell behind each of the 32 lattice cells, and Shapley weights as if all 32 were measured.
    """
    full = make_lattice(device="cuda")
    keys = [cell.effective_key for cell in lattice.cells]
    aliases = {cell.cell.key: keys.index(cell.effective_key) for cell in design.cells}
    compiled = [
        index for index, cell in enumerate(full.cells) if cell.cell.execution == "compiled" and not cell.cell.repeat
    ]
    source = np.array([aliases[full.cells[index].cell.key] for index in compiled])
    rows = [full.row("optimization", name) for name in full.names if name != "no_cuda_graphs"]
    return source, full.weights_KC[np.ix_(rows, compiled)]


def make_study(device: Literal["cpu", "cuda"]) -> Study:
    """The guide's five optimizations in a factorial design; nothing but the design of it is used."""
    catalog = make_catalog()
    names = tuple(TRUE_SHAPLEY)
    factors = tuple(
        Factor(info=info, off_means="today", off=info.off_level("today"), on=info.on)
        for info in (catalog.optimizations[name] for name in names)
    )
    return Study(
        name="validity", question="", claim=None,
        workloads=(WorkloadChoice(info=catalog.workloads["hm/user-churn"]),),
        factors=factors, compile_step=True, compile_backend="inductor",
        design="factorial", cells=(), blocks=1, seed=0, timing=Timing(), training=Training(), loader=LoaderOptions(),
        compile_cache="per-cell", equivalence=Equivalence(), device=device, num_threads=None, trial_timeout_s=1.0,
        tracking_uri=None, profile=None, spec_path="", spec_text="",
    )  # fmt: skip


def _log_time(cell: DesignedCell) -> float:
    acting = {name for name in cell.on if name not in cell.inert}
    if cell.cell.execution == "eager":
        return -sum(TRUE_SHAPLEY[name] for name in acting)
    return -COMPILE - sum(_alone(name) for name in acting) - _together(acting)


def _alone(name: str) -> float:
    """What an optimization gains alone, so that its Shapley value comes out as stated."""
    pairs = sum(gain / 2 for members, gain in TRUE_PAIRS.items() if name in members)
    triples = sum(gain / 3 for members, gain in TRUE_TRIPLES.items() if name in members)
    return TRUE_SHAPLEY[name] - pairs - triples


def _together(acting: set[str]) -> float:
    terms = {**TRUE_PAIRS, **TRUE_TRIPLES}
    return sum(gain for members, gain in terms.items() if acting.issuperset(members))
