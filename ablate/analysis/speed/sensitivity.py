"""Primary effects -> the same numbers under other summaries and other intervals, labeled and never claimed.

- Satterthwaite: trials of a block taken as independent, each cell with a variance of its own.
- cluster bootstrap: percentile interval over resampled blocks (too narrow with few blocks).
- mean, fastest: log of the mean or the minimum of the steady epochs instead of their median, block-t.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ablate.analysis.results.effects import Response, Sensitivity
from ablate.analysis.speed.effects import block_values
from ablate.analysis.statistics import engine
from ablate.analysis.statistics.inference import as_speedups, half_width
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.analysis.trials.responses import LogTimes
from ablate.core.contrast import Contrast
from ablate.core.record import Times

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
