"""Comparable trials of a workload -> log times per block and effective key, for each of the two times.

With the cache policy `per-cell` the first block compiles cold and later ones warm, so the horizon is two responses.
A block counts for one of them only when all its compiled trials had the same state of the compile cache.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ablate.analysis.results.effects import CACHE_OF, RESPONSES, Response
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.core.record import Times

BlockCaches = Literal["cold", "warm", "any", "none", "shared", "unlike"]


@dataclass(frozen=True, kw_only=True)
class LogTimes:
    """One response of one workload.

    Attributes:
        values: Natural log of seconds, by block and effective key.
        blocks: The blocks that this response may use.
        absent: Why a value is missing in a block that may be used, by (block, effective key).
    """

    response: Response
    values: Mapping[int, Mapping[str, float]]
    blocks: tuple[int, ...]
    absent: Mapping[tuple[int, str], str] = field(default_factory=dict)


def log_times(trials: WorkloadTrials, response: Response) -> LogTimes:
    """Collect one response.

    Args:
        trials: The trials of one workload.
        response: `steady`, or the horizon with cold or warm compile caches.
    """
    if response == "steady":
        blocks = trials.blocks
    else:
        blocks = tuple(b for b in trials.blocks if cache_state(trials, b) in (CACHE_OF[response], "any"))
    values: dict[int, dict[str, float]] = {block: {} for block in blocks}
    absent: dict[tuple[int, str], str] = {}
    for (block, key), trial in trials.usable.items():
        if block not in values:
            continue
        seconds = seconds_of(trial.record.times, response)
        if seconds is None:
            absent[block, key] = f"block {block}: {trials.name_of(key)} reached no steady state"
        else:
            values[block][key] = math.log(seconds)
    return LogTimes(response=response, values=values, blocks=blocks, absent=absent)


def cache_state(trials: WorkloadTrials, block: int) -> BlockCaches:
    """State of the compile caches in a block: `any` = nothing was compiled, `none` = nothing completed.

    A block whose caches are shared between cells, or were unlike, has no horizon.
    """
    states = cache_counts(trials, block)
    if not states:
        return "any" if any(number == block for number, _ in trials.usable) else "none"
    if "shared" in states:
        return "shared"
    return "cold" if set(states) == {"cold"} else "warm" if set(states) == {"warm"} else "unlike"


def cache_counts(trials: WorkloadTrials, block: int) -> Counter[str]:
    """How many compiled trials of a block started with which state of the compile cache."""
    records = [trial.record for (number, _), trial in trials.usable.items() if number == block]
    return Counter(record.cache_state for record in records if record.compiles)


def seconds_of(times: Times | None, response: Response) -> float | None:
    """The time behind a response; None when it was not reached or is no positive number."""
    seconds = None if times is None else times.steady_s if response == "steady" else times.horizon_s
    return seconds if seconds is not None and math.isfinite(seconds) and seconds > 0 else None


def responses_with_data(trials: WorkloadTrials) -> dict[Response, LogTimes]:
    """The responses that say something: steady always (its absence needs words), a horizon where a block has it.

    Where nothing was compiled the horizon counts as cold.
    """
    states = {cache_state(trials, block) for block in trials.blocks}
    wanted = [r for r in RESPONSES if r == "steady" or CACHE_OF[r] in states]
    if len(wanted) == 1 and "any" in states and "shared" not in states:
        wanted.append("horizon_cold")
    return {response: log_times(trials, response) for response in wanted}
