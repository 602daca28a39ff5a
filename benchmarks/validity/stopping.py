"""Contrasts by block -> after how many blocks a study with a target stops."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.statistics.engine import LEVEL, SEQUENTIAL_LEVEL, Array, block_t


def simultaneous_half(values_xKB: Array, *, level: float = LEVEL) -> Array:
    """Largest half-width of the intervals of a family that hold together, shape (x,)."""
    return np.asarray(block_t(values_xKB, level=level, family=values_xKB.shape[-2]).half.max(axis=-1))


def stopping_blocks(values_xKB: Array, target: float, *, looks: Sequence[int]) -> NDArray[np.int64]:
    """Number of blocks after which a sequential study stops: at the first look that is narrow enough, or the last.

    Stopping looks at the width only, never at the effects, and takes whole blocks; the intervals have alpha .03 at
    every look so that they hold as 95 %.

    Args:
        values_xKB: The family that the target is about, as many blocks as the last look.
        target: Wanted half-width of the widest simultaneous interval, log time.
        looks: Numbers of blocks at which the width is looked at.
    """
    stopped = np.full(values_xKB.shape[:-2], looks[-1], dtype=np.int64)
    for look in reversed(looks[:-1]):
        narrow = simultaneous_half(values_xKB[..., :look], level=SEQUENTIAL_LEVEL) <= target
        stopped = np.where(narrow, look, stopped)
    return stopped
