"""A study and the deviations of its arms -> parity records, series and predictions as if they had been trained.

Every ulp rerun of eager deviates by `ENVELOPE` in every step, so an arm may deviate by ten times that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ablate.core.cell import Design, PlannedTrial
from ablate.core.record import DataStamp, Metric, Parity, ParityWindow, TrialRecord
from ablate.core.study import Study
from ablate.files.paths import StudyPaths
from ablate.records.store import write_parity, write_predictions, write_record
from simulated import ENVIRONMENT

ENVELOPE = 1e-6
PRECISION = {"weights": "float32", "autocast": "off"}
WEIGHTS = 7


@dataclass(frozen=True, kw_only=True)
class Arm:
    """How the parity trials of one arm differ from eager.

    Attributes:
        deviation: Relative deviation of the loss per step of a window; a shorter one ends the window.
        lr, mask, grad: Ratio of the learning rate, shift of the mask checksum, relative deviation of the gradient.
        weights: Checksum of the weights.
        masks, note, precision, stream: What the record says.
        predictions: Added to eager's validation predictions.
        status: How the trial ended; `None` = it never ran.
    """

    deviation: Callable[[np.ndarray], np.ndarray] = lambda step: np.zeros(len(step))
    lr: float = 1.0
    mask: int = 0
    grad: float = 0.0
    weights: int = WEIGHTS
    masks: str = "aligned"
    note: str = ""
    precision: Mapping[str, str] = field(default_factory=lambda: dict(PRECISION))
    stream: str = "stream"
    predictions: np.ndarray | float = 0.0
    status: str | None = "completed"


def flat(relative: float) -> Callable[[np.ndarray], np.ndarray]:
    """The same relative deviation in every step."""
    return lambda step: np.full(len(step), relative)


def from_step(first: int, relative: float) -> Callable[[np.ndarray], np.ndarray]:
    """No deviation before a step of the training, this one from there on."""
    return lambda step: np.where(step >= first, relative, 0.0)


def write_parity_trials(
    paths: StudyPaths,
    study: Study,
    design: Design,
    arms: Mapping[str, Arm] | None = None,
    *,
    deterministic: bool = True,
    eager: Arm | None = None,
    rerun: float = ENVELOPE,
    predictions: Callable[[], np.ndarray] = lambda: np.array([-1.0, -0.5, 0.5, 1.0]),
    change: Callable[[TrialRecord, PlannedTrial], TrialRecord] = lambda record, planned: record,
) -> None:
    """Write every planned parity trial into the folder of a study.

    Args:
        arms: By name of the cell; others do not differ from eager at all.
        deterministic: What eager's record says about its unperturbed rerun.
        rerun: Relative deviation of eager's reruns.
        predictions: Eager's validation predictions, shape (rows,) or (rows, k) for rankings.
    """
    for planned in design.parity:
        is_eager = planned.reference is None
        arm = (eager if is_eager else (arms or {}).get(planned.cell.name)) or Arm()
        if arm.status is None:
            continue
        folder = paths.records / planned.slug
        record = change(_record(study, planned, arm, deterministic if is_eager else None), planned)
        if record.parity is not None:
            names = ["eager", "repeat", "ulp-1", "ulp-2"] if is_eager else ["arm"]
            runs = {name: Arm(deviation=flat(rerun)) if name.startswith("ulp") else arm for name in names}
            tables = [_series(study, name, run, w) for name, run in runs.items() for w in record.parity.windows]
            table = pd.concat(tables)
            write_parity(folder, {name: table[name].to_numpy() for name in table})
            shifts = {name: rerun if name.startswith("ulp") else run.predictions for name, run in runs.items()}
            write_run_predictions(folder, {name: predictions() + shift for name, shift in shifts.items()})
        write_record(folder, record)


def write_run_predictions(folder: Any, runs: Mapping[str, np.ndarray]) -> None:
    """Write predictions by run, shape (rows,) or (rows, k)."""
    tables = []
    for name, values in runs.items():
        values = values.reshape(len(values), -1)
        row, rank = np.indices(values.shape)
        tables.append(pd.DataFrame({"run": name, "row": row.ravel(), "rank": rank.ravel(), "value": values.ravel()}))
    table = pd.concat(tables)
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in table}
    write_predictions(folder, columns | {"value": columns["value"].astype(float)})


def _record(study: Study, planned: PlannedTrial, arm: Arm, deterministic: bool | None) -> TrialRecord:
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    windows = tuple(
        ParityWindow(
            start=start,
            num_steps=trained,
            masks=arm.masks,  # type: ignore[arg-type]
            note=arm.note,
            stream_hash=f"{arm.stream}-{start}-{trained}",  # of the batches that were trained
        )
        for start in planned.windows
        for trained in [len(arm.deviation(_steps(study, start, num_steps)))]
    )
    workload = next(w for w in study.workloads if w.name == planned.workload).info
    return replace(
        TrialRecord.begin(study, planned, started_at="2026-01-01T00:00:00+00:00"),
        status=arm.status,  # type: ignore[arg-type]
        ended_at="2026-01-01T00:10:00+00:00",
        environment=ENVIRONMENT,
        data=DataStamp(dataset="look-alike", dataset_digest="d" * 16, stream_hash="s", num_steps=num_steps),
        metric=Metric(name=workload.metric, value=0.7, unit=workload.metric_unit,
                      higher_is_better=workload.higher_is_better, num_rows=4),
        precision=dict(arm.precision),
        parity=Parity(windows=windows, deterministic=deterministic)
        if arm.status in ("completed", "non-finite") else None,
    )  # fmt: skip


def _series(study: Study, name: str, run: Arm, window: ParityWindow) -> pd.DataFrame:
    step = _steps(study, window.start, study.timing.epochs * study.timing.steps_per_epoch)
    deviation = run.deviation(step)
    step = step[: len(deviation)]
    loss = (0.7 - 0.001 * step) * (1.0 + deviation)
    return pd.DataFrame(
        {
            "run": name,
            "window": window.start,
            "step": step,
            "loss": loss,
            "grad_norm": np.full(len(step), 1.0 + run.grad),
            "lr": np.full(len(step), 0.005 * run.lr),
            "weights": np.full(len(step), run.weights),
            "mask": 1000 + step + run.mask,
        }
    )


def _steps(study: Study, start: int, num_steps: int) -> np.ndarray:
    """Steps of the training that a window has when nothing ends it early."""
    return start + np.arange(min(study.equivalence.window_steps, num_steps - start))


def with_margins(**margins: float) -> Callable[[TrialRecord, PlannedTrial], TrialRecord]:
    """An edit for `make_records`: the margins that were stated when a timed trial ran."""
    return lambda record, planned: replace(record, margins=margins)
