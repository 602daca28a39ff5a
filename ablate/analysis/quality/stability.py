"""Step times of a workload's trials -> which of them settle, and what a reader should do about those that do not.

Compile events come first: steps up to the last one do not count. Nothing is deleted here: a trial that never settles
keeps its median, is named, and more blocks are the remedy.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.results.quality import Finding, Stability
from ablate.analysis.statistics.change_points import Level, find_levels
from ablate.analysis.trials.comparable import Trial, WorkloadTrials
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
