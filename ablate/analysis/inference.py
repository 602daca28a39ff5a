"""One value per block -> mean, block-t interval, p-value; many p-values -> Holm-adjusted ones.

The unit of replication is the block. Kalibera and Jones 2013; Georges et al. 2007; Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ablate.analysis.results import Estimate, Grade

FEWEST_BLOCKS = 5
LEVEL = 0.95


def grade(num_blocks: int) -> Grade:
    """`single` for one block (no interval), `pilot` below five (no claims), `full` from five on."""
    if num_blocks < 2:
        return "single"
    return "pilot" if num_blocks < FEWEST_BLOCKS else "full"


def half_width(values_B: NDArray[np.float64], *, level: float = LEVEL, family: int = 1) -> float | None:
    """Half-width of the block-t interval `t(B-1) * sd / sqrt(B)`, Bonferroni-adjusted over a family.

    Args:
        values_B: The contrast in each block, shape (blocks,), log time.
        level: Coverage.
        family: How many intervals shall hold together.

    Returns:
        Half-width in log time; None with fewer than two blocks.
    """
    num_blocks = len(values_B)
    if num_blocks < 2:
        return None
    tail = (1.0 - level) / (2.0 * max(family, 1))
    quantile = float(stdtrit(num_blocks - 1, 1.0 - tail))
    return quantile * float(np.std(values_B, ddof=1)) / math.sqrt(num_blocks)


def p_value(values_B: NDArray[np.float64]) -> float | None:
    """Two-sided p-value of the block-t test of no effect; None with fewer than two blocks."""
    num_blocks = len(values_B)
    if num_blocks < 2:
        return None
    mean, deviation = float(np.mean(values_B)), float(np.std(values_B, ddof=1))
    if deviation == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return 2.0 * float(stdtr(num_blocks - 1, -abs(mean) / (deviation / math.sqrt(num_blocks))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the given order."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def estimate(per_block: Sequence[float], blocks: Sequence[int], *, family: int = 1) -> Estimate:
    """Turn the values of a contrast into an estimate with intervals.

    Args:
        per_block: The contrast in each block, log time; at least one.
        blocks: The numbers of these blocks.
        family: How many effects are reported together (for the simultaneous interval).
    """
    values_B = np.asarray(per_block, dtype=np.float64)
    effect = float(np.mean(values_B))
    return Estimate(
        effect=effect,
        speedup=math.exp(effect),
        interval=_as_speedups(effect, half_width(values_B)),
        simultaneous=_as_speedups(effect, half_width(values_B, family=family)),
        p_holm=p_value(values_B),
        grade=grade(len(values_B)),
        blocks=tuple(blocks),
        per_block=tuple(float(value) for value in values_B),
    )


def _as_speedups(effect: float, half: float | None) -> tuple[float, float] | None:
    if half is None:
        return None
    return _exp(effect - half), _exp(effect + half)


def _exp(value: float) -> float:
    """`exp` that saturates: two wild blocks have a half-width far beyond what a float can hold."""
    return math.exp(min(max(value, -700.0), 700.0))
