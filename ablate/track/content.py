"""A trial record and its series -> the params, tags and metric points that its MLflow run shows (no MLflow here)."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from ablate.core.cell import Design
from ablate.core.record import Identity, TrialRecord
from ablate.core.study import Factor, Study

MAX_POINTS = 1000
MAX_TEXT = 5000
SERIES = ("loss", "step_s", "host_step_s", "loader_wait_s", "lr")
RUN_STATUS = {
    "completed": "FINISHED",
    "failed": "FAILED",
    "timed-out": "FAILED",
    "non-finite": "FAILED",
    "killed": "KILLED",
}
_TIMES = ("steady_s", "horizon_s", "startup_s", "compile_s", "first_step_s")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of one metric at one step; sending the same point twice stores it once."""

    name: str
    value: float
    step: int
    timestamp_ms: int


@dataclass(frozen=True, kw_only=True)
class TrialContent:
    """What the MLflow run of a trial holds, files apart.

    Attributes:
        run_name: `<arm or cell name> b<block>`.
        status: MLflow's word for how the trial ended.
        start_ms, end_ms: Recorded times, milliseconds since 1970.
        params: Immutable facts, by MLflow key.
        tags: Identity and remarks, by MLflow key.
        points: Summary metrics and series, already thinned and finite.
    """

    run_name: str
    status: str
    start_ms: int
    end_ms: int
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: tuple[Point, ...]


def trial_id(study_hash: str, key: str, attempt: int) -> str:
    """Digest (16 hex digits) under which an attempt of a trial is looked up."""
    return hashlib.sha256(f"{study_hash}\n{key}\n{attempt}".encode()).hexdigest()[:16]


def describe_trial(record: TrialRecord, series: pd.DataFrame, study: Study, design: Design) -> TrialContent:
    """Lay out one trial for MLflow.

    Args:
        record: The trial.
        series: Its per-step columns (`SERIES.columns` of the records package), one row per step; may be empty.
        study: The study it belongs to.
        design: The design of the study, which names the cells.
    """
    identity = record.identity
    arm = arm_name(identity, design, study.factors)
    start_ms, end_ms = epoch_ms(record.started_at), epoch_ms(record.ended_at)
    summary = {name: float(value) for name, value in _summary(record) if value is not None}
    points = [Point(name=name, value=value, step=0, timestamp_ms=end_ms) for name, value in summary.items()]
    points += _series_points(record, series, start_ms)
    again = f" attempt {identity.attempt}" if identity.attempt > 1 else ""
    return TrialContent(
        run_name=f"{arm} b{identity.block}{again}",
        status=RUN_STATUS[record.status],
        start_ms=start_ms,
        end_ms=end_ms,
        params=_params(record, arm, study.factors),
        tags=_tags(record, arm) | _remarks(summary, series),
        points=tuple(point for point in points if np.isfinite(point.value)),
    )


def arm_name(identity: Identity, design: Design, factors: Sequence[Factor]) -> str:
    """Name of the arm, or of the cell when no arm names it; `parity full` for a parity trial, apart from timed ones."""
    on = [f"+{factor.name}" for factor in factors if identity.levels.get(factor.name) == factor.on]
    names = [*identity.arms[:1], *(c.name for c in design.cells if c.effective_key == identity.effective_key)]
    name = next(iter(names), " ".join([identity.execution, *on]))
    return f"parity {name}" if identity.purpose == "parity" else name


def epoch_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO date; without a zone it is taken as UTC."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def mlflow_key(text: str) -> str:
    """Replace what MLflow does not allow in a key (it takes letters, digits, `_ - . : /` and spaces)."""
    clean = re.sub(r"[^\w.\-:/ ]", "_", text, flags=re.ASCII)
    return "/".join(part.strip(". ") or "_" for part in clean.split("/"))[:250]


def plain_markdown(text: str) -> str:
    """Escape text for MLflow's description field, which is rendered as Markdown."""
    return re.sub(r"([\\`*_{}\[\]()<>#+\-!|~&:])", r"\\\1", text)


def kept_steps(num_steps: int) -> np.ndarray:
    """Rows of a series that are sent: all up to `MAX_POINTS`, else evenly spread ones, first and last included."""
    if num_steps <= MAX_POINTS:
        return np.arange(num_steps)
    return np.unique(np.linspace(0, num_steps - 1, MAX_POINTS).round().astype(int))


def _params(record: TrialRecord, arm: str, factors: Sequence[Factor]) -> dict[str, str]:
    identity = record.identity
    params = {
        "arm": arm,
        "workload": identity.workload,
        "execution": "compiled" if record.compiles else "eager",
        "block": str(identity.block),
        "seed": str(identity.seed),
        "order": str(identity.order),
        "attempt": str(identity.attempt),
        "cache_state": record.cache_state,
        "off_means": _off_means(factors),
        "emulation": _emulations(identity, factors) or "none",
    }
    for name, level in identity.levels.items():
        key = mlflow_key(name)
        params[f"optimization.{key}" if key in params else key] = level
    return {key: value[:MAX_TEXT] for key, value in params.items()}


def _off_means(factors: Sequence[Factor]) -> str:
    meanings = {factor.off_means for factor in factors}
    if len(meanings) == 1:
        return str(meanings.pop())
    return ", ".join(f"{factor.name}={factor.off_means}" for factor in factors) or "none"


def _emulations(identity: Identity, factors: Sequence[Factor]) -> str:
    active = ((factor.name, factor.info.emulations.get(identity.levels.get(factor.name, ""))) for factor in factors)
    return "; ".join(f"{name}: {label}" for name, label in active if label)


def _tags(record: TrialRecord, arm: str) -> dict[str, str]:
    identity = record.identity
    tags = {
        "ablate.kind": "trial",
        "ablate.purpose": identity.purpose,
        "ablate.study": identity.study,
        "ablate.study_hash": identity.study_hash,
        "ablate.trial_key": identity.key,
        "ablate.trial_id": trial_id(identity.study_hash, identity.key, identity.attempt),
        "ablate.attempt": str(identity.attempt),
        "ablate.effective_key": identity.effective_key,
        "ablate.arms": ", ".join(identity.arms) or arm,
        "ablate.status": record.status,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "ablate run",
    }
    if record.data is not None:
        tags["ablate.dataset_digest"] = record.data.dataset_digest
        tags["ablate.stream_hash"] = record.data.stream_hash
    if record.emulations:
        tags["ablate.emulations"] = "; ".join(f"{name}: {label}" for name, label in record.emulations.items())
    if record.failure is not None:
        tags["ablate.reason"] = record.failure.reason
        tags["mlflow.note.content"] = plain_markdown(f"{record.status}: {record.failure.reason}")
    if record.failed_after:
        tags["ablate.failed_after"] = "; ".join(map(str, record.failed_after))
    return {key: value[:MAX_TEXT] for key, value in tags.items()}


def _remarks(summary: Mapping[str, float], series: pd.DataFrame) -> dict[str, str]:
    """Tags that say what is not shown: thinned series, and values that MLflow would change (infinity) or hide."""
    remarks = {}
    num_kept = len(kept_steps(len(series)))
    if num_kept < len(series):
        remarks["ablate.series_thinned"] = f"{num_kept} of {len(series)} steps; series.parquet has all"
    skipped = [name for name, value in summary.items() if not np.isfinite(value)]
    for name in (name for name in SERIES if name in series):
        bad = ~np.isfinite(series[name].to_numpy(float))
        if bad.any():
            first = int(series["step"].to_numpy()[bad.argmax()])
            skipped.append(f"{name} at {int(bad.sum())} of {len(series)} steps, first at step {first}")
    if skipped:
        remarks["ablate.non_finite"] = "; ".join(skipped)[:MAX_TEXT]
    return remarks


def _summary(record: TrialRecord) -> Iterator[tuple[str, float | None]]:
    if record.times is not None:
        for name in _TIMES:
            yield name, getattr(record.times, name)
    yield "peak_memory_gib", record.peak_memory_gib
    yield "peak_device_memory_gib", record.peak_device_memory_gib
    yield "peak_reserved_memory_gib", record.peak_reserved_memory_gib
    yield "final_loss", record.final_loss
    if record.metric is not None:
        name = mlflow_key(record.metric.name)
        taken = name in (*_TIMES, *SERIES, "epoch_s", "final_loss")
        yield f"validation/{name}" if taken else name, record.metric.value
    for counter, value in record.evidence.counters.items():
        yield mlflow_key(f"evidence/{counter}"), value


def _series_points(record: TrialRecord, series: pd.DataFrame, start_ms: int) -> Iterator[Point]:
    """Points of every series; their times follow from the record alone, so that a second upload repeats the first."""
    if series.empty:
        return
    step_s = np.nan_to_num(series["step_s"].to_numpy(float), nan=0.0, posinf=0.0, neginf=0.0)
    at_ms = start_ms + np.round(1000 * np.cumsum(step_s)).astype(np.int64)
    steps = series["step"].to_numpy(np.int64)
    for name in (name for name in SERIES if name in series):
        values = series[name].to_numpy(float)
        for row in kept_steps(len(series)):
            yield Point(name=name, value=float(values[row]), step=int(steps[row]), timestamp_ms=int(at_ms[row]))
    if record.times is None:
        return
    last_row = series.reset_index(drop=True).groupby("epoch").tail(1).index
    for row, seconds in zip(last_row, record.times.epoch_s, strict=False):
        yield Point(name="epoch_s", value=float(seconds), step=int(steps[row]), timestamp_ms=int(at_ms[row]))
