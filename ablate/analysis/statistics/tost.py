"""Differences of losses per block -> whether they lie inside a margin (TOST), differ from zero, both, or neither.

Legend: B blocks, N bins of steps, T steps; `x` = any leading axes (studies, arms).

The rule, for a mean difference over blocks and its block-t intervals (Lakens 2017; Georges et al. 2007):

| 90 % interval inside the margin | 95 % interval excludes 0 | verdict |
|---|---|---|
| yes | no | equivalent |
| yes | yes | different within margin |
| no | yes | different |
| no | no | inconclusive |

The 90 % interval inside `+-margin` is the two one-sided tests at 5 % each (Schuirmann 1987). A curve is inside when
every bin is (intersection-union: no adjustment), and excludes 0 when a bin does at 95 % for all bins together
(Bonferroni).
"Not significantly different" is never "equivalent".
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.statistics.engine import Array, block_t

VerdictWord = Literal["equivalent", "different within margin", "different", "inconclusive"]
NUM_BINS = 20
TOST_LEVEL = 0.90


@dataclass(frozen=True, kw_only=True)
class MarginTest:
    """Paired TOST over the last axis; all fields have the shape of the input without blocks.

    Attributes:
        mean: Mean difference over blocks.
        half_90, half_95: Half-widths of the two intervals.
        inside: The 90 % interval lies inside the margin.
        differs: The 95 % interval excludes 0.
    """

    mean: Array
    half_90: Array
    half_95: Array
    inside: NDArray[np.bool_]
    differs: NDArray[np.bool_]


def margin_test(values_xB: Array, margin: float | None, *, family: int = 1) -> MarginTest:
    """Test differences against `+-margin`.

    Args:
        values_xB: Differences per block, two blocks or more.
        margin: Largest difference that still counts as equal; None = nothing is inside.
        family: How many differences from zero are looked for together (Bonferroni on the 95 % interval only).
    """
    narrow = block_t(values_xB, level=TOST_LEVEL)
    wide = block_t(values_xB, family=family)
    limit = -np.inf if margin is None else margin
    return MarginTest(
        mean=narrow.mean,
        half_90=narrow.half,
        half_95=wide.half,
        inside=np.asarray(np.abs(narrow.mean) + narrow.half < limit),
        differs=np.asarray(np.abs(wide.mean) > wide.half),
    )


def curve_test(values_xNB: Array, margin: float | None) -> MarginTest:
    """Test the differences of every bin; `inside` and `differs` are about the whole curve, shape (x,)."""
    bins = margin_test(values_xNB, margin, family=values_xNB.shape[-2])
    return replace(bins, inside=np.all(bins.inside, axis=-1), differs=np.any(bins.differs, axis=-1))


def non_inferiority_test(better_xB: Array, margin: float | None) -> MarginTest:
    """Test that a metric is not worse by more than the margin.

    Args:
        better_xB: Differences per block, positive = better than the reference.
        margin: Largest loss of metric that still counts as equal.

    Returns:
        `inside`: the lower end of the 90 % interval is above `-margin`. `differs`: the whole 95 % interval is below 0.
    """
    test = margin_test(better_xB, margin)
    limit = np.inf if margin is None else -margin
    inside, differs = test.mean - test.half_90 > limit, test.mean + test.half_95 < 0.0
    return replace(test, inside=np.asarray(inside), differs=np.asarray(differs))


def verdict(*, inside: bool, differs: bool) -> VerdictWord:
    """Apply the rule of this file to one test."""
    if inside:
        return "different within margin" if differs else "equivalent"
    return "different" if differs else "inconclusive"


def bin_losses(loss_T: Array) -> Array:
    """Mean loss of 20 equal bins of steps (one bin per step with fewer than 20), shape (N,)."""
    num_bins = min(len(loss_T), NUM_BINS)
    edges = np.linspace(0, len(loss_T), num_bins + 1).astype(np.int64)
    return np.add.reduceat(loss_T, edges[:-1]) / np.diff(edges)


def final_loss(loss_T: Array) -> float:
    """Mean loss of the last of the 20 bins: what margins are stated for (one step is mostly noise of its batch)."""
    return float(bin_losses(loss_T)[-1])
