"""One value per block -> mean, block-t interval, p-value; many p-values -> Holm-adjusted ones.

The unit of replication is the block. The arithmetic is that of `engine`, which `benchmarks/validity` proves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.statistics import engine
from ablate.analysis.statistics.engine import LEVEL

FEWEST_BLOCKS = 5
Grade = Literal["single", "pilot", "full"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its uncertainty.

    Attributes:
        effect: Mean over blocks of the contrast on log time.
        speedup: `exp(effect)`.
        interval: 95 % block-t interval of the speed-up; None with one block.
        simultaneous: The same, Bonferroni over the family that the number belongs to.
        p_holm: Two-sided p-value, Holm-adjusted over the family; None with one block.
        grade: `single` (one block: no interval), `pilot` (fewer than five: no claims), `full`.
        blocks: The blocks behind it.
        per_block: The contrast in each of these blocks.
    """

    effect: float
    speedup: float
    interval: tuple[float, float] | None = None
    simultaneous: tuple[float, float] | None = None
    p_holm: float | None = None
    grade: Grade = "single"
    blocks: tuple[int, ...] = ()
    per_block: tuple[float, ...] = ()

    @property
    def excludes_one(self) -> bool:
        """Whether the plain interval excludes a speed-up of 1."""
        return self.interval is not None and not self.interval[0] <= 1.0 <= self.interval[1]


def grade(num_blocks: int) -> Grade:
    """`single` for one block (no interval), `pilot` below five (no claims), `full` from five on."""
    if num_blocks < 2:
        return "single"
    return "pilot" if num_blocks < FEWEST_BLOCKS else "full"


def half_width(values_B: NDArray[np.float64], *, level: float = LEVEL, family: int = 1) -> float | None:
    """Half-width of the block-t interval, Bonferroni-adjusted over a family.

    Args:
        values_B: The contrast in each block, shape (blocks,), log time.
        level: Coverage.
        family: How many intervals shall hold together.

    Returns:
        Half-width in log time; None with fewer than two blocks.
    """
    if len(values_B) < 2:
        return None
    return float(engine.block_t(values_B, level=level, family=family).half)


def p_value(values_B: NDArray[np.float64]) -> float | None:
    """Two-sided p-value of the block-t test of no effect; None with fewer than two blocks."""
    return float(engine.block_t(values_B).p) if len(values_B) > 1 else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the given order."""
    return [float(p) for p in engine.holm(np.asarray(p_values, dtype=np.float64))] if p_values else []


def estimate(per_block: Sequence[float], blocks: Sequence[int], *, family: int = 1, level: float = LEVEL) -> Estimate:
    """Turn the values of a contrast into an estimate with intervals.

    Args:
        per_block: The contrast in each block, log time; at least one.
        blocks: The numbers of these blocks.
        family: How many effects are reported together (for the simultaneous interval).
        level: Coverage that the intervals are computed for (a sequential study: .97, which holds as .95).
    """
    values_B = np.asarray(per_block, dtype=np.float64)
    effect = float(np.mean(values_B))
    return Estimate(
        effect=effect,
        speedup=math.exp(effect),
        interval=as_speedups(effect, half_width(values_B, level=level)),
        simultaneous=as_speedups(effect, half_width(values_B, family=family, level=level)),
        p_holm=p_value(values_B),
        grade=grade(len(values_B)),
        blocks=tuple(blocks),
        per_block=tuple(float(value) for value in values_B),
    )


def as_speedups(effect: float, half: float | None) -> tuple[float, float] | None:
    """Interval of a log-time effect -> interval of speed-up factors."""
    if half is None:
        return None
    return _exp(effect - half), _exp(effect + half)


def _exp(value: float) -> float:
    """`exp` that saturates: two wild blocks have a half-width far beyond what a float can hold."""
    return math.exp(min(max(value, -700.0), 700.0))
