"""Primary effects -> the same numbers under other orders, summaries and intervals, labeled and never claimed.

- order: how much an optimization's rung depends on the order of the ladder, over every order.
- Satterthwaite: trials of a block taken as independent, each cell with a variance of its own.
- cluster bootstrap: percentile interval over resampled blocks (too narrow with few blocks).
- mean, fastest: log of the mean or the minimum of the steady epochs instead of their median, block-t.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ablate.analysis.results.effects import OrderRange, Response, Sensitivity
from ablate.analysis.speed.effects import block_values
from ablate.analysis.statistics import engine
from ablate.analysis.statistics.inference import as_speedups, half_width
from ablate.analysis.trials.comparable import Layout, WorkloadTrials
from ablate.analysis.trials.responses import LogTimes
from ablate.core.contrast import Contrast
from ablate.core.record import Times


def make_order_ranges(layout: Layout, trials: WorkloadTrials, times: LogTimes) -> list[OrderRange]:
    """Smallest and largest rung of each optimization (mean over the blocks that have every cell)."""
    if trials.not_comparable:
        return []
    steps = layout.orders
    on = {
        cell.effective_key: tuple(name for name in cell.on if name in steps and name not in cell.inert)
        for cell in layout.design.cells
    }
    found = []
    before_in_guide: set[str] = set()
    for name, contrasts in steps.items():
        ladder = _range(name, contrasts, on, before_in_guide & set(steps), times)
        found += [ladder] if ladder else []
        before_in_guide.add(name)
    return found


def _range(
    name: str,
    contrasts: Sequence[Contrast],
    on: Mapping[str, tuple[str, ...]],
    before_in_guide: set[str],
    times: LogTimes,
) -> OrderRange | None:
    by_place = {}
    for contrast in contrasts:
        slower = next(key for key, weight in contrast.weights.items() if weight > 0)
        by_place[on[slower]] = block_values(contrast, times)
    blocks = set.intersection(*(set(values) for values in by_place.values()))
    if not blocks:
        return None
    means = {place: float(np.mean([values[b] for b in blocks])) for place, values in by_place.items()}
    low, high = min(means, key=lambda p: means[p]), max(means, key=lambda p: means[p])
    guide = next(place for place in means if set(place) == before_in_guide)
    return OrderRange(
        response=times.response,
        optimization=name,
        guide=math.exp(means[guide]),
        low=math.exp(means[low]),
        high=math.exp(means[high]),
        low_after=low,
        high_after=high,
        num_places=len(means),
        num_blocks=len(blocks),
    )


KINDS = ("total", "compile", "optimization", "layer")
RESAMPLES, SEED = 2000, 20_260_101
SUMMARIES: dict[str, Literal["mean", "min"]] = {"mean of epochs": "mean", "fastest epoch": "min"}


def make_sensitivity(contrasts: Sequence[Contrast], trials: WorkloadTrials, times: LogTimes) -> list[Sensitivity]:
    """Every sensitivity column of one workload and response."""
    if trials.not_comparable:
        return []
    asked = [c for c in contrasts if c.kind in KINDS and c.weights]
    found = list(_other_intervals(asked, times))
    if times.response == "steady":
        for method, how in SUMMARIES.items():
            found += _other_summary(asked, summarized(trials, times, how), method)
    return found


def summarized(trials: WorkloadTrials, times: LogTimes, how: Literal["mean", "min"]) -> LogTimes:
    """The steady response with another summary of the steady epochs, for the same trials."""
    values = {
        block: {key: _summary(trials.usable[block, key].record.times, how) for key in row}
        for block, row in times.values.items()
    }
    return replace(times, values=values)


def _summary(times: Times | None, how: Literal["mean", "min"]) -> float:
    assert times is not None and times.steady_s is not None
    epochs = [times.epoch_s[epoch] for epoch in times.steady_epochs if epoch < len(times.epoch_s)]
    return float(engine.epoch_summary(np.log(np.array(epochs or [times.steady_s])), how))


def _other_intervals(contrasts: Sequence[Contrast], times: LogTimes) -> Iterator[Sensitivity]:
    for contrast in contrasts:
        values = block_values(contrast, times)
        if len(values) < 2:
            continue
        keys = list(contrast.weights)
        y_CB = np.array([[times.values[block][key] for block in values] for key in keys])
        weights = engine.weight_matrix([contrast.weights], keys)
        mean, half = engine.satterthwaite(weights, y_CB)
        row = _row(contrast, times.response, float(mean[0]), len(values))
        interval = as_speedups(float(mean[0]), float(half[0]))
        yield replace(row, method="Satterthwaite", interval=interval)
        shares = engine.resample_counts(len(values), RESAMPLES, np.random.default_rng([SEED, len(values)]))
        low, high = engine.bootstrap_interval(np.array(list(values.values())), shares)
        yield replace(row, method="cluster bootstrap", interval=(math.exp(low), math.exp(high)))


def _other_summary(contrasts: Sequence[Contrast], times: LogTimes, method: str) -> Iterator[Sensitivity]:
    for contrast in contrasts:
        values_B = np.array(list(block_values(contrast, times).values()))
        if len(values_B):
            mean = float(values_B.mean())
            row = _row(contrast, times.response, mean, len(values_B))
            yield replace(row, method=method, interval=as_speedups(mean, half_width(values_B)))


def _row(contrast: Contrast, response: Response, mean: float, num_blocks: int) -> Sensitivity:
    return Sensitivity(
        response=response, kind=contrast.kind, subject=contrast.subject, method="",
        speedup=math.exp(mean), interval=None, num_blocks=num_blocks,
    )  # fmt: skip
