"""Log times of many studies -> contrasts in every block and intervals over blocks, as array operations alone.

Every number of a report and every number of `benchmarks/validity` goes through these functions.

Legend: C effective keys, B blocks, E epochs, K contrasts, R resamples; `x` = any leading axes (studies). Contrasts are
on the second last axis and blocks on the last, so `values_xKB` is one row of blocks per contrast.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Array = NDArray[np.float64]
LEVEL = 0.95
SEQUENTIAL_LEVEL = 0.97


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Block-t inference on contrasts; `mean`, `half` and `p` have the shape of `values_xKB` without blocks."""

    mean: Array
    half: Array
    p: Array

    def covers(self, truth: Array | float) -> NDArray[np.bool_]:
        """Whether each interval contains the truth."""
        return np.asarray(np.abs(self.mean - truth) <= self.half)


def finite(value: float) -> float | None:
    """The number, or None for one that is not finite (JSON has none)."""
    return float(value) if np.isfinite(value) else None


def weight_matrix(weights: Sequence[Mapping[str, float]], keys: Sequence[str]) -> Array:
    """Weights of contrasts on effective keys -> matrix, shape (K, C)."""
    column = {key: index for index, key in enumerate(keys)}
    weights_KC = np.zeros((len(weights), len(keys)))
    for row, mapping in enumerate(weights):
        for key, weight in mapping.items():
            weights_KC[row, column[key]] = weight
    return weights_KC


def contrast_values(weights_KC: Array, log_time_xCB: Array) -> Array:
    """`D[k, b] = sum over c of w[k, c] * y[c, b]`, shape (x, K, B); everything reported is one of these rows."""
    return np.asarray(np.matmul(weights_KC, log_time_xCB))


def epoch_summary(log_time_xE: Array, how: Literal["median", "mean", "min"] = "median") -> Array:
    """Log of the median, mean or minimum of epoch times over the last axis."""
    if how == "min":
        return np.asarray(np.min(log_time_xE, axis=-1))
    if how == "mean":
        return np.asarray(np.log(np.mean(np.exp(log_time_xE), axis=-1)))
    ordered = np.sort(log_time_xE, axis=-1)
    middle, odd = divmod(log_time_xE.shape[-1], 2)
    if odd:
        return np.asarray(ordered[..., middle])
    return np.asarray(np.logaddexp(ordered[..., middle - 1], ordered[..., middle]) - math.log(2.0))


def block_t(values_xB: Array, *, level: float = LEVEL, family: int = 1) -> Inference:
    """Block-t: `mean +- t(B-1) * sd / sqrt(B)` over the last axis (Kalibera and Jones 2013; Georges et al. 2007).

    Args:
        values_xB: Contrasts per block, log time; two blocks or more.
        level: Coverage of each interval, or of the whole family.
        family: How many intervals shall hold together (Bonferroni).
    """
    num_blocks = values_xB.shape[-1]
    mean = np.mean(values_xB, axis=-1)
    error = np.std(values_xB, axis=-1, ddof=1) / math.sqrt(num_blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(mean) / error
    ratio = np.where(error == 0.0, np.where(mean == 0.0, 0.0, np.inf), ratio)
    return Inference(
        mean=mean,
        half=quantile(num_blocks - 1, level=level, family=family) * error,
        p=2.0 * stdtr(num_blocks - 1, -ratio),
    )


def quantile(degrees: float, *, level: float = LEVEL, family: int = 1) -> float:
    """Two-sided quantile of Student's t, Bonferroni-adjusted over a family."""
    return float(stdtrit(degrees, 1.0 - (1.0 - level) / (2.0 * max(family, 1))))


def holm(p_xK: Array) -> Array:
    """Holm's step-down adjustment over the last axis (Holm 1979)."""
    num = p_xK.shape[-1]
    order = np.argsort(p_xK, axis=-1, kind="stable")
    ranked = np.take_along_axis(p_xK, order, axis=-1) * np.arange(num, 0, -1)
    ranked = np.minimum(np.maximum.accumulate(ranked, axis=-1), 1.0)
    adjusted = np.empty_like(ranked)
    np.put_along_axis(adjusted, order, ranked, axis=-1)
    return adjusted


def resample_counts(num_blocks: int, num_resamples: int, generator: np.random.Generator) -> Array:
    """How often each block is drawn in each resample, as shares, shape (R, B)."""
    drawn = generator.multinomial(num_blocks, np.full(num_blocks, 1.0 / num_blocks), size=num_resamples)
    return drawn / num_blocks


def bootstrap_interval(values_xB: Array, shares_RB: Array, *, level: float = LEVEL) -> tuple[Array, Array]:
    """Percentile interval of the mean over resampled blocks; too narrow with few blocks, a sensitivity column only."""
    means_xR = values_xB @ shares_RB.T
    low, high = np.quantile(means_xR, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=-1)
    return low, high


def satterthwaite(weights_KC: Array, log_time_xCB: Array, *, level: float = LEVEL) -> tuple[Array, Array]:
    """Means and half-widths when cells are independent samples with variances of their own, shape (x, K) each.

    `se^2 = sum w^2 s_c^2 / B`, degrees of freedom by Satterthwaite 1946. The block means are taken out first, which
    costs `1 / C` of each variance. A sensitivity column only: it believes that the trials of a block are independent.
    """
    num_cells, num_blocks = log_time_xCB.shape[-2:]
    inside = log_time_xCB - np.mean(log_time_xCB, axis=-2, keepdims=True)
    variance_xC = np.var(inside, axis=-1, ddof=1) * num_cells / max(num_cells - 1, 1)
    parts_xKC = weights_KC**2 * variance_xC[..., None, :] / num_blocks
    squared = np.sum(parts_xKC, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = squared**2 / np.sum(parts_xKC**2 / (num_blocks - 1), axis=-1)
    quantiles = stdtrit(np.where(squared > 0, degrees, 1.0), (1.0 + level) / 2.0)
    mean = np.mean(contrast_values(weights_KC, log_time_xCB), axis=-1)
    return mean, quantiles * np.sqrt(squared)
