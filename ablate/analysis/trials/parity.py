"""Parity records of a workload -> per block, the trials that may be compared with eager, with their series by window.

A parity trial trains the steps of eager from eager's weights, on the same batches, with the same dropout masks. Its
times mean nothing, and it never enters an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablate.analysis.statistics.envelope import WindowSeries
from ablate.analysis.trials.comparable import (
    Trial,
    WorkloadTrials,
    mixed_data,
    mixed_environments,
    mixed_precision,
    why_absent,
)
from ablate.core.cell import Design, PlannedTrial
from ablate.core.record import ParityWindow
from ablate.records.store import read_parity

ULP = "ulp-"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One run of one window.

    Attributes:
        first_step: Step of the training that the window starts with.
        weights: Checksum of all weights after each step, shape (T,).
    """

    first_step: int
    series: WindowSeries
    weights: NDArray[np.int64]

    def is_bitwise(self, other: Recorded) -> bool:
        """Losses, gradient norms and weights are equal in every bit, in every step."""
        return (
            np.array_equal(self.series.loss, other.series.loss, equal_nan=True)
            and np.array_equal(self.series.grad_norm, other.series.grad_norm, equal_nan=True)
            and np.array_equal(self.weights, other.weights)
        )


@dataclass(frozen=True, kw_only=True)
class ParityBlock:
    """The parity trials of one workload and block.

    Attributes:
        planned: By effective key.
        reference: Effective key of eager, from whose checkpoints the others restart.
        trials: Last attempts that trained a window, by effective key.
        absent: Why others did not, by effective key.
    """

    workload: str
    block: int
    planned: Mapping[str, PlannedTrial]
    reference: str
    trials: Mapping[str, Trial]
    absent: Mapping[str, str]

    @property
    def is_deterministic(self) -> bool:
        """An unperturbed rerun of eager was bitwise equal to it."""
        eager = self.trials.get(self.reference)
        return eager is not None and eager.record.parity is not None and bool(eager.record.parity.deterministic)

    def why_not(self, key: str, other: str) -> str:
        """Why the trials of two effective keys are not compared; empty when they are."""
        for name in (other, key):
            if name not in self.trials:
                who = "eager's parity trial" if name == self.reference else "its parity trial"
                return f"{who}: {self.absent.get(name, 'not planned')}"
        return _why_not_paired(self.trials[key], self.trials[other])


def group_parity(design: Design, trials: WorkloadTrials) -> list[ParityBlock]:
    """Sort the parity trials of a workload by block.

    Args:
        design: The planned parity trials; a record of other windows or reruns than planned is another trial.
        trials: The trials of the workload.
    """
    ended = {trial.record.identity.key: trial for trial in trials.parity}
    blocks: dict[int, dict[str, PlannedTrial]] = {}
    for planned in design.parity:
        if planned.workload == trials.workload:
            blocks.setdefault(planned.block, {})[planned.cell.effective_key] = planned
    return [_block(trials.workload, block, planned, ended) for block, planned in sorted(blocks.items())]


def read_runs(trial: Trial) -> dict[tuple[str, int], Recorded]:
    """Read what a parity trial recorded, by run and window.

    Raises:
        StoredDataError: the file is damaged.
    """
    table = read_parity(trial.folder).sort_values("step", kind="stable")
    found = {}
    for (run, window), rows in table.groupby(["run", "window"], sort=False):
        found[str(run), int(window)] = Recorded(
            first_step=int(window),
            series=WindowSeries(
                loss=rows["loss"].to_numpy(float),
                grad_norm=rows["grad_norm"].to_numpy(float),
                lr=rows["lr"].to_numpy(float),
                mask=rows["mask"].to_numpy(np.int64),
            ),
            weights=rows["weights"].to_numpy(np.int64),
        )
    return found


def reruns_of(runs: Mapping[tuple[str, int], Recorded], window: int) -> list[WindowSeries]:
    """Series of eager's reruns from weights moved by one ulp, in one window."""
    return [r.series for (run, w), r in sorted(runs.items()) if w == window and run.startswith(ULP)]


def window_of(trial: Trial, start: int) -> ParityWindow | None:
    """What a trial's record says about one window; None when it never got there."""
    parity = trial.record.parity
    return next((w for w in parity.windows if w.start == start), None) if parity else None


def _block(workload: str, block: int, planned: Mapping[str, PlannedTrial], ended: Mapping[str, Trial]) -> ParityBlock:
    last = {key: ended.get(trial.key) for key, trial in planned.items()}
    trials = {key: t for key, t in last.items() if t is not None and _trained(t)}
    return ParityBlock(
        workload=workload,
        block=block,
        planned=planned,
        reference=next(key for key, trial in planned.items() if trial.reference is None),
        trials=trials,
        absent={key: why_absent(trial) for key, trial in last.items() if key not in trials},
    )


def _trained(trial: Trial) -> bool:
    """It trained its windows; a loss that became infinite on the way is a result, a crash is not."""
    return trial.record.parity is not None and trial.record.status in ("completed", "non-finite")


def _why_not_paired(arm: Trial, other: Trial) -> str:
    """What forbids to compare two parity trials at all; empty when nothing does."""
    pair = [arm, other]
    return mixed_precision(pair) or mixed_data(pair) or mixed_environments(pair) or ""
