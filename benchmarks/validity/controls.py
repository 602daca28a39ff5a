"""Common ways to put an interval on a number -> their coverage, which must be too low: the benchmark has teeth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ablate.analysis.statistics.engine import (
    Array,
    block_t,
    bootstrap_interval,
    contrast_values,
    epoch_summary,
    quantile,
    resample_counts,
)
from ablate.design.cells import make_design
from benchmarks.validity import constants as c
from benchmarks.validity.lattice import Lattice, copied_cells, make_study
from benchmarks.validity.measure import chunks, generator_of, lattice_of
from benchmarks.validity.simulate import simulate

BLOCKS = 5
Covers = Callable[[Lattice, Array, list[int]], Array]


def pooled_epochs(num_studies: int) -> float:
    """Highest coverage of a Shapley value when every epoch counts as a replicate: `t(B E - 1) * sd / sqrt(B E)`."""

    def covers(lattice: Lattice, times: Array, rows: list[int]) -> Array:
        values = np.einsum("kc,scbe->skbe", lattice.weights_KC[rows], times, optimize=True)
        return block_t(values.reshape(*values.shape[:2], -1)).covers(lattice.truth_K[rows])

    return float(np.max(_coverage("bootstrap", "normal", num_studies, covers)))


def bootstrap(num_studies: int) -> float:
    """Highest coverage of a Shapley value with the percentile bootstrap over five blocks."""
    shares = resample_counts(BLOCKS, c.RESAMPLES, generator_of("resamples"))

    def covers(lattice: Lattice, times: Array, rows: list[int]) -> Array:
        low, high = bootstrap_interval(contrast_values(lattice.weights_KC[rows], epoch_summary(times)), shares)
        return (low <= lattice.truth_K[rows]) & (lattice.truth_K[rows] <= high)

    return float(np.max(_coverage("bootstrap", "normal", num_studies, covers)))


def fixed_order(num_studies: int) -> float:
    """Lowest coverage of a Shapley value when every block measures the cells in the same order while times drift."""

    def covers(lattice: Lattice, times: Array, rows: list[int]) -> Array:
        values = contrast_values(lattice.weights_KC[rows], epoch_summary(times))
        return block_t(values).covers(lattice.truth_K[rows])

    return float(np.min(_coverage("fixed order", "drift", num_studies, covers, is_ordered=True)))


def copied_rows(num_studies: int, *, is_copied: bool = True) -> float:
    """Coverage of a Shapley value when trials are pooled as independent rows of one regression.

    Args:
        is_copied: Each measurement of an inert optimization is copied into the two rows that share it (highest
            coverage); otherwise every measurement is one row (lowest coverage).
    """
    study = make_study("cpu")
    copies = copied_cells(lattice_of("inert"), study, make_design(study))

    def covers(lattice: Lattice, times: Array, rows: list[int]) -> Array:
        y_SCB = epoch_summary(times)
        if is_copied:
            source, weights = copies
            return _regression_covers(weights, y_SCB[:, source], lattice.truth_K[rows])
        compiled = np.flatnonzero(np.any(lattice.weights_KC[rows] != 0.0, axis=0))
        weights = lattice.weights_KC[np.ix_(rows, compiled)]
        return _regression_covers(weights, y_SCB[:, compiled], lattice.truth_K[rows])

    coverage = _coverage("copies", "inert", num_studies, covers)
    return float(np.max(coverage) if is_copied else np.min(coverage))


def _regression_covers(weights_KC: Array, y_SCB: Array, truth_K: Array) -> Array:
    """Cells and blocks as additive terms, one residual variance with `(C - 1)(B - 1)` degrees of freedom."""
    num_cells, num_blocks = y_SCB.shape[1:]
    residual = y_SCB - y_SCB.mean(axis=1, keepdims=True) - y_SCB.mean(axis=2, keepdims=True)
    residual += y_SCB.mean(axis=(1, 2), keepdims=True)
    degrees = (num_cells - 1) * (num_blocks - 1)
    variance_S = np.sum(residual**2, axis=(1, 2)) / degrees
    error_SK = np.sqrt(variance_S[:, None] * np.sum(weights_KC**2, axis=1) / num_blocks)
    mean_SK = contrast_values(weights_KC, y_SCB).mean(axis=-1)
    return np.asarray(np.abs(mean_SK - truth_K) <= quantile(degrees) * error_SK)


def _coverage(control: str, setting: str, num_studies: int, covers: Covers, *, is_ordered: bool = False) -> Array:
    """Share of studies in which each Shapley value's interval contains the truth."""
    lattice = lattice_of(setting)
    rows = lattice.rows("optimization")
    generator = generator_of("control", control)
    counts = np.zeros(len(rows))
    for size in chunks(num_studies):
        times = simulate(setting, lattice, generator, num_studies=size, num_blocks=BLOCKS, is_ordered=is_ordered)
        counts += covers(lattice, times, rows).sum(axis=0)
    return counts / num_studies
