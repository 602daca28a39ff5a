"""Log times without their cell and block means -> drift along the order of trials, outliers, and the noise per trial.

Legend: C cells, B blocks. Only blocks in which every cell has a time are used.
"""

import math
from dataclasses import dataclass

import numpy as np

from ablate.analysis.results.quality import Finding, RunOrder
from ablate.analysis.statistics.engine import Array, block_t
from ablate.analysis.statistics.inference import as_speedups
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.analysis.trials.responses import LogTimes
from ablate.core.units import name_some

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
