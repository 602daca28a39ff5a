"""Spread of an effect between blocks -> half-width, smallest detectable effect, and the number of blocks for a target.

The spread `sd` is the standard deviation of a contrast between blocks, log time. Targets are ratios: 0.02 = 2 %.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincinv, ndtr

from ablate.analysis.statistics.engine import LEVEL, Array, quantile

POWER = 0.9
MOST_BLOCKS = 400
TARGETS = (0.01, 0.02, 0.03)
NUM_POINTS = 2000


def half_width(sd: float, num_blocks: int, *, family: int = 1, level: float = LEVEL) -> float:
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
    return _fewest(lambda blocks: half_width(sd, blocks, family=family, level=level) <= target)


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
