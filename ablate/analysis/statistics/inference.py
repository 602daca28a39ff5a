"""One value per block -> mean, block-t interval, p-value; the spread between blocks -> blocks for a target.

The spread `sd` is the standard deviation of a contrast between blocks, log time. Targets are ratios: 0.02 = 2 %.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr

from ablate.analysis.statistics import engine
from ablate.analysis.statistics.engine import LEVEL, Array, quantile

POWER = 0.9
MOST_BLOCKS = 400
TARGETS = (0.01, 0.02, 0.03)
NUM_POINTS = 2000


def expected_half_width(sd: float, num_blocks: int, *, family: int = 1, level: float = LEVEL) -> float:
    """Expected half-width of the (simultaneous) block-t interval, as a ratio."""
    return math.expm1(quantile(num_blocks - 1, level=level, family=family) * sd / math.sqrt(num_blocks))


def power_of(effect: float, sd: float, num_blocks: int, *, family: int = 1) -> float:
    """Chance that the interval excludes 0 when the effect is `log(1 + effect)`.

    The noncentral t distribution, as a mean over the distribution of the estimated spread (`scipy.special.nctdtr` is
    wrong for large shifts).
    """
    if sd <= 0.0:
        return 1.0
    shift = math.log1p(effect) * math.sqrt(num_blocks) / sd
    critical = quantile(num_blocks - 1, family=family)
    edges = critical * _spreads(num_blocks - 1)
    return float(np.mean(ndtr(shift - edges) + ndtr(-shift - edges)))


@functools.cache
def _spreads(degrees: int) -> Array:
    """Estimated over true standard deviation at evenly spaced quantiles: `sqrt(chi2 / degrees)`."""
    shares = (np.arange(NUM_POINTS) + 0.5) / NUM_POINTS
    return np.asarray(np.sqrt(2.0 * gammaincinv(degrees / 2.0, shares) / degrees))


def smallest_detectable(sd: float, num_blocks: int, *, family: int = 1, power: float = POWER) -> float:
    """Smallest effect that is found with the wanted power, as a ratio, by bisection."""
    low, high = 0.0, 1e-3
    while power_of(high, sd, num_blocks, family=family) < power and high < 1e6:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if power_of(middle, sd, num_blocks, family=family) >= power else (middle, high)
    return high


def blocks_for_width(sd: float, target: float, *, family: int = 1, level: float = LEVEL) -> int | None:
    """Fewest blocks (2 or more) whose half-width is at most the target; None beyond 400."""
    return _fewest(lambda blocks: expected_half_width(sd, blocks, family=family, level=level) <= target)


def blocks_to_detect(sd: float, effect: float, *, family: int = 1, power: float = POWER) -> int | None:
    """Fewest blocks that find the effect with the wanted power; None beyond 400."""
    return _fewest(lambda blocks: power_of(effect, sd, blocks, family=family) >= power)


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """First number of blocks that is enough; more blocks are never worse."""
    low, high = 2, MOST_BLOCKS
    if not is_enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


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
