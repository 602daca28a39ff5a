"""Per-step losses of trials -> thinned curves per arm, and how far each is from the eager curve of its block.

Legend: C arms, B blocks, T steps, N bins. Whether a distance is harmless is decided in `equivalence`: the dropout masks
of timed trials are not aligned.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.results.training import Curve, CurveDistance
from ablate.analysis.statistics.engine import finite
from ablate.analysis.statistics.envelope import relative_deviation
from ablate.analysis.trials.comparable import Layout, WorkloadTrials
from ablate.records.store import read_columns

NUM_BINS = 200
BEYOND = 1e-5
Losses = Mapping[int, NDArray[np.float64]]


def make_curves(
    layout: Layout, losses: Mapping[tuple[int, str], NDArray[np.float64]]
) -> tuple[list[Curve], list[CurveDistance]]:
    """Compare the loss of every named cell with that of eager of the same block.

    Args:
        losses: `usable_losses` of the workload.
    """
    by_arm = {
        names[0]: {block: loss for (block, k), loss in sorted(losses.items()) if k == key}
        for key, (_, names) in layout.arms.items()
    }
    eager = by_arm.get("eager", {})
    curves = [_curve(arm, by_block, eager) for arm, by_block in by_arm.items() if by_block]
    distances = [
        curve_distance(arm, block, loss, eager.get(block))
        for arm, by_block in by_arm.items()
        if arm != "eager"
        for block, loss in by_block.items()
    ]
    return curves, distances


def usable_losses(trials: WorkloadTrials) -> dict[tuple[int, str], NDArray[np.float64]]:
    """Loss per step of every usable timed trial that has any, shape (T,), by block and effective key."""
    losses = {place: read_losses(trial.folder) for place, trial in trials.usable.items()}
    return {place: loss for place, loss in losses.items() if len(loss)}


def read_losses(folder: Path) -> NDArray[np.float64]:
    """Loss per step of one trial, shape (T,)."""
    columns = read_columns(folder, "step", "loss")
    return np.asarray(columns["loss"][np.argsort(columns["step"], kind="stable")], dtype=np.float64)


def curve_distance(
    arm: str, block: int, loss_T: NDArray[np.float64], eager_T: NDArray[np.float64] | None
) -> CurveDistance:
    """Summarize the distance of one curve from eager's."""
    final = finite(loss_T[-1])
    if eager_T is None or len(eager_T) != len(loss_T):
        note = "no eager trial in this block"
        if eager_T is not None:
            note = f"different number of steps: {len(loss_T)} against {len(eager_T)}"
        return CurveDistance(arm=arm, block=block, final_loss=final, note=note)
    deviation_T = relative_deviation(loss_T, eager_T)
    beyond = np.flatnonzero(~(deviation_T <= BEYOND))
    return CurveDistance(
        arm=arm,
        block=block,
        max_deviation=finite(np.max(deviation_T)),
        first_step_beyond=int(beyond[0]) if len(beyond) else None,
        final_loss=final,
        final_deviation=finite(deviation_T[-1]),
    )


def _curve(arm: str, by_block: Losses, eager: Losses) -> Curve:
    longest = max(len(loss) for loss in by_block.values())
    edges = _edges(longest)
    means_BN = np.array([_binned(loss, edges, "mean") for loss in by_block.values()])
    deviations = [
        _binned(relative_deviation(loss, eager[block]), edges, "max")
        for block, loss in by_block.items()
        if block in eager and len(eager[block]) == len(loss)
    ]
    return Curve(
        arm=arm,
        blocks=tuple(by_block),
        steps=tuple(int(edge) - 1 for edge in edges[1:]),
        loss=_numbers(_over_blocks(means_BN, "mean")),
        low=_numbers(_over_blocks(means_BN, "min")),
        high=_numbers(_over_blocks(means_BN, "max")),
        deviation=_numbers(_over_blocks(np.array(deviations), "max")) if deviations and arm != "eager" else (),
    )


def _edges(num_steps: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, num_steps, min(num_steps, NUM_BINS) + 1).astype(np.int64))


def _binned(values_T: NDArray[np.float64], edges: NDArray[np.int64], how: str) -> NDArray[np.float64]:
    """Mean or maximum per bin, shape (N,); nan for bins past the end of a shorter series."""
    inside = edges[:-1] < len(values_T)
    starts = edges[:-1][inside]
    result = np.full(len(edges) - 1, np.nan)
    if len(starts):
        sizes = np.diff(np.append(starts, min(len(values_T), int(edges[-1]))))
        reduced = (np.add if how == "mean" else np.maximum).reduceat(values_T[: int(edges[-1])], starts)
        result[inside] = reduced / sizes if how == "mean" else reduced
    return result


def _over_blocks(values_BN: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Mean, minimum or maximum of the values that are there; nan where none is."""
    if how != "mean":
        return np.asarray((np.fmin if how == "min" else np.fmax).reduce(values_BN, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nansum(values_BN, axis=0) / (~np.isnan(values_BN)).sum(axis=0))


def _numbers(values: Sequence[float] | NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(map(finite, values))
