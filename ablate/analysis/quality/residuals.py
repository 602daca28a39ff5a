"""Trials of a workload -> which of them settle, drift along their order, outliers, and the noise per trial.

Compile events come first: steps up to the last one do not count. Nothing is deleted here: a trial that never settles
keeps its median, is named, and more blocks are the remedy. Residuals are log times without their cell and block means;
only blocks in which every cell has a time are used. Legend: C cells, B blocks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.results.quality import Finding, RunOrder, Stability
from ablate.analysis.statistics.change_points import Level, find_levels
from ablate.analysis.statistics.engine import Array, block_t
from ablate.analysis.statistics.inference import as_speedups
from ablate.analysis.trials.comparable import Trial, WorkloadTrials
from ablate.analysis.trials.responses import LogTimes
from ablate.core.units import name_some
from ablate.records.store import read_columns


def make_stability(trials: WorkloadTrials, steps_per_epoch: int) -> list[Stability]:
    """Judge every usable trial that has a series."""
    places = sorted(trials.usable)
    every = [trials.usable[place] for place in places]
    series = [read_step_times(trial) for trial in every]
    starts = [first_free_step(trial) for trial in every]
    return [
        judge(trials.name_of(key), block, levels, start, steps_per_epoch)
        for (block, key), levels, start, steps in zip(places, find_levels(series, starts), starts, series, strict=True)
        if len(steps)
    ]


def read_step_times(trial: Trial) -> NDArray[np.float64]:
    """Seconds per step in order, shape (T,)."""
    columns = read_columns(trial.folder, "step", "step_s")
    return np.asarray(columns["step_s"][np.argsort(columns["step"], kind="stable")], dtype=np.float64)


def first_free_step(trial: Trial) -> int:
    """First step after the last compilation."""
    return max((event.step + 1 for event in trial.record.evidence.events), default=0)


def judge(name: str, block: int, levels: Sequence[Level], start: int, steps_per_epoch: int) -> Stability:
    """Classify one trial by its last level.

    Args:
        levels: Levels of the step time after the last compilation.
        start: First step that was looked at.
        steps_per_epoch: A trial is settled when its last level lasts at least so many steps.
    """
    if not levels:
        return Stability(name=name, block=block, verdict="too short", steady_from=start)
    last = levels[-1]
    settled = last.stop - last.start >= min(steps_per_epoch, last.stop - start)
    return Stability(
        name=name,
        block=block,
        verdict="flat" if len(levels) == 1 else "settles" if settled else "no steady state",
        steady_from=last.start,
        change=last.median_s / levels[-2].median_s if len(levels) > 1 and levels[-2].median_s else None,
        num_levels=len(levels),
    )


def stability_findings(rows: Sequence[Stability]) -> list[Finding]:
    """Say how many trials never settle or end slower than they began, naming a few."""
    restless = [r for r in rows if r.verdict == "no steady state"]
    slower = [r for r in rows if r.verdict == "settles" and r.change is not None and r.change > 1.0]
    found = []
    if restless:
        found.append(
            f"step times of {len(restless)} of {len(rows)} trials have no steady state: their last level is shorter "
            f"than an epoch ({_names(restless)}); train longer (timing.epochs) or keep the machine quiet"
        )
    if slower:
        found.append(
            f"{len(slower)} of {len(rows)} trials end slower than they ran before ({_names(slower)}); random order "
            "spreads that over the cells, more blocks average it out"
        )
    return [Finding(kind="note", text=text) for text in found]


def _names(rows: Sequence[Stability]) -> str:
    parts = [
        f"{row.name} in block {row.block}"
        + (f" {100 * (row.change - 1):+.1f} % from step {row.steady_from}" if row.change else "")
        for row in rows
    ]
    return name_some(parts)


OUTLYING = 5.0
MAD_TO_SD = 1.4826
SMALLEST = 0.02


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """What cells and blocks do not explain.

    Attributes:
        keys: Effective keys, rows.
        blocks: Complete blocks, columns.
        residual_CB: `y - cell mean - block mean + mean`.
        order_CB: Place of each trial in its block.
    """

    keys: tuple[str, ...]
    blocks: tuple[int, ...]
    residual_CB: Array
    order_CB: Array

    @property
    def trial_sd(self) -> float:
        """Standard deviation of one trial inside a block, log time, with `(C - 1)(B - 1)` degrees of freedom."""
        num_cells, num_blocks = self.residual_CB.shape
        return float(np.sqrt(np.sum(self.residual_CB**2) / ((num_cells - 1) * (num_blocks - 1))))


def take_out_means(trials: WorkloadTrials, times: LogTimes) -> Residuals | None:
    """Residuals of one response; None with fewer than three cells or two complete blocks."""
    keys = tuple(dict.fromkeys(key for values in times.values.values() for key in values))
    blocks = tuple(b for b, values in times.values.items() if values and len(values) == len(keys))
    if len(keys) < 3 or len(blocks) < 2:
        return None
    y_CB = np.array([[times.values[block][key] for block in blocks] for key in keys])
    order_CB = np.array([[float(trials.usable[block, key].record.identity.order) for block in blocks] for key in keys])
    residual = y_CB - y_CB.mean(axis=0) - y_CB.mean(axis=1, keepdims=True) + y_CB.mean()
    return Residuals(keys=keys, blocks=blocks, residual_CB=residual, order_CB=order_CB)


def run_order(found: Residuals) -> RunOrder:
    """Slope of the residuals on the place in the block, block by block, then block-t over blocks.

    A block's residual holds only `(B - 1) / B` of its own drift, the rest went into the cell means; that is undone.
    """
    num_cells, num_blocks = found.residual_CB.shape
    place = found.order_CB - found.order_CB.mean(axis=0)
    slope_B = (place * found.residual_CB).sum(axis=0) / (place**2).sum(axis=0)
    drift_B = slope_B * (num_cells - 1) * num_blocks / (num_blocks - 1)
    drift = float(drift_B.mean())
    half = float(block_t(drift_B).half) if num_blocks > 2 else None
    return RunOrder(drift=math.exp(drift), interval=as_speedups(drift, half), num_blocks=num_blocks)


def residual_findings(trials: WorkloadTrials, found: Residuals, order: RunOrder) -> list[Finding]:
    """Drift along the order and trials far off, each with what to do; nothing is deleted."""
    texts = []
    if order.interval is not None and not order.interval[0] <= 1.0 <= order.interval[1]:
        texts.append(
            f"times drift by {100 * (order.drift - 1):+.1f} % from the first to the last trial of a block (95 % "
            f"interval {100 * (order.interval[0] - 1):+.1f} to {100 * (order.interval[1] - 1):+.1f} %); random order "
            "keeps the effects unbiased, a machine at a steady temperature would make the intervals narrower"
        )
    outlying = outliers(found)
    if outlying:
        names = [
            f"{trials.name_of(key)} in block {block} {100 * math.expm1(residual):+.1f} %"
            for key, block, residual in outlying
        ]
        texts.append(
            f"{len(outlying)} steady times lie far from what their cell and block explain "
            f"({name_some(names)}); they stay in, and more blocks lower their weight"
        )
    return [Finding(kind="note", text=text) for text in texts]


def outliers(found: Residuals) -> list[tuple[str, int, float]]:
    """(key, block, residual) beyond 5 robust standard deviations and 2 %, largest first."""
    spread = MAD_TO_SD * float(np.median(np.abs(found.residual_CB)))
    limit = max(OUTLYING * spread, SMALLEST)
    rows = [
        (found.keys[c], found.blocks[b], float(found.residual_CB[c, b]))
        for c, b in np.argwhere(np.abs(found.residual_CB) > limit)
    ]
    return sorted(rows, key=lambda row: -abs(row[2]))
