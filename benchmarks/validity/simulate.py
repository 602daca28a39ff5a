"""A setting and a generator -> log epoch times of simulated studies with known truth.

Legend: S studies, C cells, B blocks, E epochs, F optimizations.
"""

from __future__ import annotations

import numpy as np

from ablate.analysis.statistics.engine import Array
from benchmarks.validity import constants as c
from benchmarks.validity.lattice import Lattice

Generator = np.random.Generator


def simulate(
    setting: str, lattice: Lattice, generator: Generator, *, num_studies: int, num_blocks: int, is_ordered: bool = False
) -> Array:
    """Draw log epoch times, shape (S, C, B, E).

    Args:
        setting: One of `constants.SETTINGS`.
        lattice: Cells and their noiseless log times.
        is_ordered: With `drift`, measure the cells of every block in the order of the design, not in random order.
    """
    shape = (num_studies, len(lattice.cells), num_blocks)
    scale_C = np.geomspace(*c.UNEQUAL_RANGE, shape[1]) if setting == "unequal" else np.ones(shape[1])
    scale_C = np.random.default_rng(c.SEED).permutation(scale_C)
    y_SCB = lattice.truth_C[:, None] + c.BLOCK * generator.standard_normal((num_studies, 1, num_blocks))
    y_SCB = y_SCB + c.PROCESS * scale_C[:, None] * generator.standard_normal(shape)
    if setting == "drift":
        y_SCB += c.DRIFT * _places(shape, generator, is_ordered) / (shape[1] - 1)
    if setting == "slopes":
        slopes_SFB = c.SLOPE * generator.standard_normal((num_studies, len(lattice.names), num_blocks))
        y_SCB -= np.matmul(lattice.on_FC.T, slopes_SFB)
    if setting == "spikes":
        slow = generator.random(shape) < c.SLOW_SHARE
        y_SCB += np.where(slow, generator.exponential(c.SLOW_MEAN, shape), 0.0)
    noise = _epoch_noise(setting, (*shape, c.EPOCHS), generator)
    noise *= scale_C[:, None, None]
    noise += y_SCB[..., None]
    return noise


def _epoch_noise(setting: str, shape: tuple[int, ...], generator: Generator) -> Array:
    noise = c.EPOCH * generator.standard_normal(shape)
    if setting == "autocorrelated":
        rest = np.sqrt(1.0 - c.AUTOCORRELATION**2)
        for epoch in range(1, shape[-1]):
            noise[..., epoch] = c.AUTOCORRELATION * noise[..., epoch - 1] + rest * noise[..., epoch]
    if setting == "spikes":
        hit = generator.random(shape) < c.SPIKE_SHARE
        noise += np.where(hit, generator.exponential(c.SPIKE_MEAN, shape), 0.0)
    return noise


def _places(shape: tuple[int, int, int], generator: Generator, is_ordered: bool) -> Array:
    """Place of each cell in the order of its block, shape (S, C, B)."""
    places = np.broadcast_to(np.arange(shape[1], dtype=np.float64)[:, None], shape)
    return places if is_ordered else generator.permuted(places, axis=1)
