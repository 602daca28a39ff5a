"""Times of trials -> where the horizon of each arm goes, and after how many epochs `full` has paid back its start."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from ablate.analysis.results.effects import CACHE_OF, RESPONSES, Cache, Response
from ablate.analysis.results.speed import BreakEven, LedgerBar
from ablate.analysis.trials.comparable import Layout, WorkloadTrials
from ablate.analysis.trials.responses import LogTimes
from ablate.core.record import Times


def make_ledger(layout: Layout, trials: WorkloadTrials, responses: Mapping[Response, LogTimes]) -> list[LedgerBar]:
    """Split the horizon of every named cell into compilation, waiting for batches, and the rest (training).

    The wait of the horizon is the measured wait per steady epoch times `horizon_epochs`, plus what the other epochs
    waited beyond that.
    """
    bars = []
    for response in RESPONSES[1:]:
        if response not in responses or trials.not_comparable:
            continue
        for key, (_, names) in layout.arms.items():
            every = _times(trials, responses[response], key)
            if every:
                bars.append(_bar(names[0], CACHE_OF[response], every))
    return bars


def make_break_even(layout: Layout, trials: WorkloadTrials, responses: Mapping[Response, LogTimes]) -> list[BreakEven]:
    """Compare `full` with `eager`: extra start-up time over time saved per steady epoch, cold and warm."""
    key_of_eager, key_of_full = layout.key_of("eager"), layout.key_of("full")
    if key_of_eager is None or key_of_full is None or trials.not_comparable:
        return []
    found = []
    for response in RESPONSES[1:]:
        if response not in responses:
            continue
        eager = _times(trials, responses[response], key_of_eager)
        full = _times(trials, responses[response], key_of_full)
        blocks = eager.keys() & full.keys()
        if blocks:
            startup = median((full[b].startup_s or 0.0) - (eager[b].startup_s or 0.0) for b in blocks)
            saving = median((eager[b].steady_s or 0.0) - (full[b].steady_s or 0.0) for b in blocks)
            found.append(break_even(CACHE_OF[response], startup, saving))
    return found


def break_even(cache: Cache, startup_difference_s: float, saving_per_epoch_s: float) -> BreakEven:
    """Number of epochs after which the saving has paid for the start.

    Args:
        startup_difference_s: Start-up time of `full` minus that of `eager`, seconds.
        saving_per_epoch_s: Steady epoch of `eager` minus that of `full`, seconds; not positive = never.
    """
    after = BreakEven(
        cache=cache, verdict="after", epochs=None,
        startup_difference_s=startup_difference_s, saving_per_epoch_s=saving_per_epoch_s,
    )  # fmt: skip
    if saving_per_epoch_s <= 0:
        return replace(after, verdict="never")
    if startup_difference_s <= 0:
        return replace(after, verdict="at once", epochs=0.0)
    return replace(after, epochs=startup_difference_s / saving_per_epoch_s)


def horizon_parts(times: Times) -> tuple[float, float, float]:
    """Compile, loader wait and training seconds of one trial's horizon; they add up to `horizon_s`."""
    horizon = times.horizon_s or 0.0
    compiling = min(max(times.compile_s, 0.0), horizon)
    waits = times.loader_wait_s
    steady = [waits[e] for e in times.steady_epochs if e < len(waits)]
    per_epoch = median(steady) if steady else 0.0
    extra = sum(wait - per_epoch for e, wait in enumerate(waits) if e not in times.steady_epochs)
    waiting = min(max(times.horizon_epochs * per_epoch + extra, 0.0), horizon - compiling)
    return compiling, waiting, horizon - compiling - waiting


def _bar(arm: str, cache: Cache, every: Mapping[int, Times]) -> LedgerBar:
    parts: Sequence[tuple[float, float, float]] = [horizon_parts(times) for times in every.values()]
    compiling, waiting, training = (median(part[index] for part in parts) for index in range(3))
    return LedgerBar(
        arm=arm,
        cache=cache,
        horizon_s=compiling + waiting + training,
        compile_s=compiling,
        loader_wait_s=waiting,
        training_s=training,
        overlaps=any(times.step_clock == "device" for times in every.values()),
    )


def _times(trials: WorkloadTrials, log: LogTimes, key: str) -> dict[int, Times]:
    assert log.response in CACHE_OF
    return {
        block: trials.usable[block, key].record.times  # type: ignore[misc]
        for block, values in log.values.items()
        if key in values
    }
