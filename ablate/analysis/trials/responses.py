"""Comparable trials of a workload -> log times per block and effective key, for each of the two times.

With the cache policy `per-cell` the first block compiles cold and later ones warm, so the horizon is two responses.
A block counts for one of them only when all its compiled trials had the same state of the compile cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.analysis.results.study import RESPONSES, Response
from ablate.analysis.trials.comparable import Trial, WorkloadTrials
from ablate.core.record import Times

CACHE_OF: Mapping[Response, str] = {"horizon_cold": "cold", "horizon_warm": "warm"}
SHARED = "the compile cache is shared between cells, so compile times are not comparable and no horizon is reported"


@dataclass(frozen=True, kw_only=True)
class LogTimes:
    """One response of one workload.

    Attributes:
        values: Natural log of seconds, by block and effective key.
        blocks: The blocks that this response may use.
        left_out: Why other blocks are left out.
        absent: Why a value is missing in a block that may be used, by (block, effective key).
    """

    response: Response
    values: Mapping[int, Mapping[str, float]]
    blocks: tuple[int, ...]
    left_out: Mapping[int, str] = field(default_factory=dict)
    absent: Mapping[tuple[int, str], str] = field(default_factory=dict)


def log_times(trials: WorkloadTrials, response: Response) -> LogTimes:
    """Collect one response.

    Args:
        trials: The trials of one workload.
        response: `steady`, or the horizon with cold or warm compile caches.
    """
    if response == "steady":
        blocks, left_out = trials.blocks, {}
    else:
        states = {block: cache_state(trials, block) for block in trials.blocks}
        blocks = tuple(block for block, state in states.items() if state in (CACHE_OF[response], "any"))
        left_out = {block: state for block, state in states.items() if state not in ("cold", "warm", "any", "none")}
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
    return LogTimes(response=response, values=values, blocks=blocks, left_out=left_out, absent=absent)


def cache_state(trials: WorkloadTrials, block: int) -> str:
    """State of the compile caches in a block.

    Returns:
        `cold`, `warm`, `any` (nothing was compiled), `none` (nothing completed), or a sentence why the block is left
        out of the horizon.
    """
    usable = [trial for (number, _), trial in trials.usable.items() if number == block]
    compiled = [trial for trial in usable if trial.record.compiles]
    states = {trial.record.cache_state for trial in compiled}
    if not compiled:
        return "any" if usable else "none"
    if states == {"cold"} or states == {"warm"}:
        return states.pop()
    if "shared" in states:
        return SHARED
    counts = ", ".join(f"{state}: {_count(compiled, state)}" for state in sorted(states))
    return f"block {block} is left out of the horizon, its compiled trials had unlike compile caches ({counts})"


def seconds_of(times: Times | None, response: Response) -> float | None:
    """The time behind a response; None when it was not reached or is no positive number."""
    seconds = None if times is None else times.steady_s if response == "steady" else times.horizon_s
    return seconds if seconds is not None and math.isfinite(seconds) and seconds > 0 else None


def responses_with_data(trials: WorkloadTrials) -> dict[Response, LogTimes]:
    """The responses that say something: steady always (its absence needs words), a horizon where a block has it.

    Where nothing was compiled the horizon counts as cold.
    """
    states = {cache_state(trials, block) for block in trials.blocks}
    wanted: list[Response] = ["steady"]
    wanted += [r for r in RESPONSES[1:] if CACHE_OF[r] in states]
    if len(wanted) == 1 and "any" in states and SHARED not in states:
        wanted.append("horizon_cold")
    return {response: log_times(trials, response) for response in wanted}


def _count(trials: list[Trial], state: str) -> int:
    return sum(trial.record.cache_state == state for trial in trials)
