"""Step times of many trials -> levels between change points, and whether each trial settles.

The cut is the exact minimum of `sum over segments of length * log(variance) + penalty per cut`, the optimum that PELT
finds (Killick et al. 2012, normal cost); the tests compare it with `ruptures.Pelt`. It is worked out for all trials at
once, since one trial of 1000 steps takes ruptures 0.6 s. Penalty `15 log n`; neighbors within 1 % are one level
(Barrett et al. 2017).

Legend: N trials, T steps, G grid places (every fifth step).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
JUMP, SHORTEST = 5, 10
PENALTY = 15.0
SAME = 0.01
FLOOR = 1e-6


@dataclass(frozen=True, kw_only=True)
class Level:
    """Steps `start` to `stop - 1` and their median, in seconds."""

    start: int
    stop: int
    median_s: float


def find_levels(series: Sequence[Array], starts: Sequence[int]) -> list[tuple[Level, ...]]:
    """Cut each series, from its start on, into levels.

    Args:
        series: Seconds per step of each trial; they need not be equally long.
        starts: First step to look at (after the last compilation).

    Returns:
        Levels per series, neighbors within 1 % merged; empty where fewer than 20 steps are left.
    """
    pieces = [np.asarray(values, dtype=np.float64)[start:] for values, start in zip(series, starts, strict=True)]
    found: list[tuple[Level, ...]] = [()] * len(pieces)
    by_length: dict[int, list[int]] = {}
    for index, piece in enumerate(pieces):
        if len(piece) >= 2 * SHORTEST:
            by_length.setdefault(-(-len(piece) // JUMP), []).append(index)
    for group in by_length.values():
        for index, cuts in zip(group, find_cuts([pieces[i] for i in group]), strict=True):
            found[index] = _merged(pieces[index], [0, *cuts, len(pieces[index])], starts[index])
    return found


def find_cuts(pieces: Sequence[Array]) -> list[list[int]]:
    """Exact change points (first step of each later segment) of series that share the number of grid places."""
    lengths = np.array([len(piece) for piece in pieces])
    num_grid = int(-(-lengths.max() // JUMP))
    padded = np.zeros((len(pieces), num_grid * JUMP))
    for row, piece in enumerate(pieces):
        spread = float(np.std(piece))
        padded[row, : len(piece)] = (piece - np.mean(piece)) / (spread if spread > 0.0 else 1.0)
    places_NG = np.minimum(np.arange(num_grid + 1) * JUMP, lengths[:, None])
    sums, squares = _cumulated(padded, places_NG), _cumulated(padded**2, places_NG)
    penalty_N = PENALTY * np.log(lengths)
    best = np.full((len(pieces), num_grid + 1), np.inf)
    best[:, 0] = -penalty_N
    before = np.zeros((len(pieces), num_grid + 1), dtype=np.int64)
    for stop in range(SHORTEST // JUMP, num_grid + 1):
        size = (places_NG[:, stop, None] - places_NG[:, :stop]).astype(np.float64)
        total = sums[:, stop, None] - sums[:, :stop]
        deviation = squares[:, stop, None] - squares[:, :stop] - total**2 / np.maximum(size, 1.0)
        cost = size * np.log(np.maximum(deviation, 0.0) / np.maximum(size - 1.0, 1.0) + FLOOR)
        reached = np.where(size >= SHORTEST, best[:, :stop] + cost, np.inf) + penalty_N[:, None]
        before[:, stop] = np.argmin(reached, axis=1)
        best[:, stop] = np.min(reached, axis=1)
    return [_walk_back(row, num_grid) for row in before]


def _cumulated(values_NT: Array, places_NG: NDArray[np.int64]) -> Array:
    sums = np.concatenate([np.zeros((len(values_NT), 1)), np.cumsum(values_NT, axis=1)], axis=1)
    return np.take_along_axis(sums, places_NG, axis=1)


def _walk_back(before_G: NDArray[np.int64], num_grid: int) -> list[int]:
    cuts = []
    place = int(before_G[num_grid])
    while place > 0:
        cuts.append(place * JUMP)
        place = int(before_G[place])
    return cuts[::-1]


def _merged(piece: Array, edges: Sequence[int], offset: int) -> tuple[Level, ...]:
    """Join neighbors whose medians differ by at most 1 %, the nearest pair first."""
    bounds = list(edges)
    while len(bounds) > 2:
        medians = [float(np.median(piece[a:b])) for a, b in pairwise(bounds)]
        gaps = [abs(y / x - 1.0) if x else np.inf for x, y in pairwise(medians)]
        nearest = int(np.argmin(gaps))
        if gaps[nearest] > SAME:
            break
        del bounds[nearest + 1]
    return tuple(
        Level(start=a + offset, stop=b + offset, median_s=float(np.median(piece[a:b]))) for a, b in pairwise(bounds)
    )
