"""Simulated losses with a known difference -> how often tier 2 is right (items 7 and 9), and a control that must fail.

Losses are in units of their standard deviation between the processes of one block:
`loss[c, b] = block[b] + truth[c] + noise[c, b]`. Cells of a block share the block effect; noise is normal, standard
deviation 1, so the strict margin of half a standard deviation is 0.5. Seeds are fixed; verdicts come from the functions
that judge real studies.

Legend: S studies, C cells, B blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ablate.analysis.statistics.engine import Array, block_t
from ablate.analysis.statistics.tost import MarginTest, margin_test
from ablate.analysis.training.margin_tests import optimization_weights
from ablate.core.cell import Cell
from ablate.design.game import subsets_of
from ablate.design.lattice import Lattice
from benchmarks.validity.checks import spread

SEED = 20_261_130
NUM_STUDIES, QUICK_STUDIES = 10_000, 5_000
BLOCKS = (5, 8)
BLOCK_SD = 2.0
STRICT = 0.5  # the strict margin, in standard deviations
MARGINS = (0.5, 2.0, 5.0)  # far above the noise a test reaches its 5 %, below it it says less
NAMES = ("dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free")
NOMINAL, MOST_TYPE_1 = 0.05, 0.06
POWER = {5: 0.60, 8: 0.90}
LEAST_INCONCLUSIVE = 0.90
LEAST_BLIND = 0.50
Draw = Callable[[str, int, int, float], Array]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One acceptance number; `ok` is None for a number that is only printed."""

    what: str
    value: float
    limit: str
    ok: bool | None


def run_simulated(quick: bool) -> list[Row]:
    """Measure every number, with fewer studies in the quick form."""
    num = QUICK_STUDIES if quick else NUM_STUDIES
    return [*_type_1(num), *_power(num), *_underpowered(num), *_controls(num)]


def full_lattice() -> Lattice:
    """The 32 compiled cells of five optimizations that all act."""
    cells = {
        subset: Cell(execution="compiled", levels={name: str(name in subset) for name in NAMES}).key
        for subset in subsets_of(NAMES)
    }
    return Lattice(
        factors=(), active=frozenset(NAMES), eager_active=frozenset(), why_inert={}, compiled=cells, eager={},
        repeats={},
    )  # fmt: skip


def simulate(place: str, num_studies: int, num_blocks: int, truth_C: Array) -> Array:
    """Draw losses, shape (S, C, B); the generator depends on the seed and the place in the benchmark only."""
    generator = np.random.default_rng([SEED, num_blocks, *place.encode()])
    block_S1B = BLOCK_SD * generator.standard_normal((num_studies, 1, num_blocks))
    return truth_C[:, None] + block_S1B + generator.standard_normal((num_studies, len(truth_C), num_blocks))


def arm_differences(place: str, num_studies: int, num_blocks: int, truth: float) -> Array:
    """Losses of an arm minus those of eager of the same block, shape (S, B)."""
    losses = simulate(f"arm {place}", num_studies, num_blocks, np.array([0.0, truth]))
    return losses[:, 1] - losses[:, 0]


def factorial_differences(place: str, num_studies: int, num_blocks: int, truth: float) -> Array:
    """Half of the cells against the other half, for an optimization that shifts the loss by `truth`, shape (S, B)."""
    lattice = full_lattice()
    weights = optimization_weights(lattice, NAMES[0])
    truth_C = np.array([truth * (NAMES[0] in subset) for subset in lattice.compiled])
    losses = simulate(f"factorial {place}", num_studies, num_blocks, truth_C)
    return np.einsum("c,scb->sb", np.array([weights[key] for key in lattice.compiled.values()]), losses)


DRAWS: dict[str, Draw] = {"an arm": arm_differences, "an optimization (factorial)": factorial_differences}


def _type_1(num: int) -> Iterator[Row]:
    """Item 7: the true difference lies on the margin, so every `inside` is an error; the worst case counts."""
    num_checks = 2 * len(MARGINS) * len(DRAWS) * len(BLOCKS)
    most = max(MOST_TYPE_1, round(NOMINAL + spread(num, num_checks, NOMINAL), 4))  # fewer studies vary more by chance
    for blocks in BLOCKS:
        for who, draw in DRAWS.items():
            worst = max(
                _inside(margin_test(draw(f"type I {margin} {sign}", num, blocks, sign * margin), margin))
                for margin in MARGINS
                for sign in (1, -1)
            )
            yield Row(
                what=f"type I error of TOST, {who}, worst of {len(MARGINS)} margins and both signs, {blocks} blocks",
                value=worst, limit=f"<= {most:g}", ok=worst <= most,
            )  # fmt: skip


def _power(num: int) -> Iterator[Row]:
    """Item 7: no difference at all, the strict margin, all 32 cells."""
    for blocks in BLOCKS:
        value = _inside(margin_test(factorial_differences("power", num, blocks, 0.0), STRICT))
        yield Row(
            what=f"power of TOST, an optimization (factorial), margin {STRICT} sd, {blocks} blocks", value=value,
            limit=f">= {POWER[blocks]}", ok=value >= POWER[blocks],
        )  # fmt: skip


def _underpowered(num: int) -> Iterator[Row]:
    """Item 9: two processes a block cannot resolve the strict margin."""
    for blocks in BLOCKS:
        test = margin_test(arm_differences("underpowered", num, blocks, 0.0), STRICT)
        inconclusive = float(np.mean(~test.inside & ~test.differs))
        yield Row(
            what=f"inconclusive when underpowered: an arm, margin {STRICT} sd, {blocks} blocks", value=inconclusive,
            limit=f">= {LEAST_INCONCLUSIVE}", ok=inconclusive >= LEAST_INCONCLUSIVE,
        )  # fmt: skip
        yield Row(
            what=f"the same: called equivalent, {blocks} blocks", value=float(np.mean(test.inside & ~test.differs)),
            limit="printed only", ok=None,
        )  # fmt: skip


def _controls(num: int) -> Iterator[Row]:
    """The easy check must be blind: a paired t-test of five seeds that finds nothing proves nothing."""
    differences = arm_differences("control", num, 5, STRICT)
    blind = float(np.mean(block_t(differences).p > 0.05))
    yield Row(
        what=f"negative control: paired t-test finds nothing at a true difference of {STRICT} sd, 5 blocks",
        value=blind, limit=f"> {LEAST_BLIND}", ok=blind > LEAST_BLIND,
    )  # fmt: skip
    inside = _inside(margin_test(differences, STRICT))
    yield Row(
        what="TOST on the same studies: called inside", value=inside, limit=f"<= {MOST_TYPE_1}",
        ok=inside <= MOST_TYPE_1,
    )  # fmt: skip


def _inside(test: MarginTest) -> float:
    return float(np.mean(test.inside))
