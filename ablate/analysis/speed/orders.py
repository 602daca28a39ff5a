"""Every ladder step of every order -> how much an optimization's rung depends on the order of the ladder."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ablate.analysis.results.effects import OrderRange
from ablate.analysis.speed.effects import block_values
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.analysis.trials.layout import Layout
from ablate.analysis.trials.responses import LogTimes
from ablate.core.contrast import Contrast


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
