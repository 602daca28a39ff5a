"""A study with stated effects -> trial records as if it had been run, and the folder of such a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ablate.analysis.analyze import analyze, analyze_trials
from ablate.analysis.results.study import Results, WorkloadResults
from ablate.analysis.trials.comparable import Trial as Loaded
from ablate.core.cell import Design, PlannedTrial
from ablate.core.evidence import CompileEvent, Evidence
from ablate.core.recipe import Recipe
from ablate.core.record import DataStamp, Environment, Failure, Metric, Status, Times, TrialRecord
from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.records.store import write_json, write_record, write_series

BASE_EPOCH_S = 8.0
ENVIRONMENT = Environment(
    python="3.11.0",
    platform="Linux-simulated",
    packages={"torch": "2.13.0", "torch-geometric": "2.8.1", "optuna": "5.0.0"},
    workload={"sampler": "native"},
    world_size=1,
    device="cpu",
    device_name="simulated CPU",
    num_threads=2,
)
Trial = tuple[TrialRecord, pd.DataFrame]


def make_records(
    study: Study,
    design: Design,
    *,
    effects: Mapping[str, float] | None = None,
    noise: float = 0.0,
    seed: int = 0,
    change: Callable[[TrialRecord, PlannedTrial], TrialRecord | None] | None = None,
) -> list[Trial]:
    """Simulate every planned trial.

    Args:
        effects: Effect on the log steady epoch (positive = faster) of each optimization where it acts, and of
            `compile` in compiled cells.
        noise: Standard deviation of log time, per trial.
        seed: Seed of the noise.
        change: Edits a finished record (fail it, change its stream hash ...); None removes the trial.
    """
    generator = np.random.default_rng(seed)
    trials = []
    for planned in design.trials:
        record, series = _trial(study, planned, effects or {}, noise * generator.standard_normal(2))
        changed = record if change is None else change(record, planned)
        if changed is not None:
            trials.append((changed, series))
    return trials


def analyzed(tmp_path: Path, study: Study, **simulation: Any) -> Results:
    """Results of a simulated study, by way of its files; arguments as in `make_records`."""
    design = make_design(study)
    return analyze(write_study_folder(tmp_path, study, design, make_records(study, design, **simulation)))


def analyzed_in_memory(study: Study, **simulation: Any) -> WorkloadResults:
    """Results of a simulated study of one workload, from records without files."""
    design = make_design(study)
    records = [record for record, _ in make_records(study, design, **simulation)]
    [result] = analyze_trials(study, design, [Loaded(record=r, folder=Path("none")) for r in records]).workloads
    return result


def write_study_folder(root: Path, study: Study, design: Design, trials: Iterable[Trial]) -> StudyPaths:
    """Write study, design, records and series where a real study has them."""
    paths = StudyPaths.of(study.name, runs=root / "runs", reports=root / "reports")
    write_json(paths.study_json, study)
    write_json(paths.design_json, design)
    slugs = {trial.key: trial.slug for trial in design.trials}
    for record, series in trials:
        folder = paths.records / slugs[record.identity.key]
        write_series(folder, {name: series[name].to_numpy() for name in series})
        write_record(folder, record)
    return paths


def fail(record: TrialRecord, reason: str, status: Status = "failed") -> TrialRecord:
    """The same trial as if it had failed."""
    failure = Failure(reason=reason)
    return replace(
        record, status=status, failure=failure, times=None, metric=None, final_loss=None, evidence=Evidence()
    )


def timed(record: TrialRecord, factor: float) -> TrialRecord:
    """The same trial with every time multiplied."""
    times = record.times
    assert times is not None
    scaled = replace(
        times,
        epoch_s=tuple(factor * e for e in times.epoch_s),
        compile_s=factor * times.compile_s,
        loader_wait_s=tuple(factor * w for w in times.loader_wait_s),
        first_step_s=factor * times.first_step_s,
    )
    return replace(record, times=scaled)


def log_steady_s(planned: PlannedTrial, effects: Mapping[str, float]) -> float:
    """Log of the noiseless steady epoch of a trial."""
    faster = sum(effects.get(name, 0.0) for name in _acting(planned))
    if planned.cell.compiles:
        faster += effects.get("compile", 0.0)
    return math.log(BASE_EPOCH_S) - faster


def _trial(study: Study, planned: PlannedTrial, effects: Mapping[str, float], noise: np.ndarray) -> Trial:
    timing = study.timing
    counters = _counters(planned, study)
    steady = math.exp(log_steady_s(planned, effects) + 0.03 * math.sin(planned.block) + float(noise[0]))
    compiled = planned.cell.compiles
    cold = study.compile_cache == "none" or planned.block == 0
    per_compile = 20.0 if cold else 6.0
    compiles = counters.get("compiles.forward", 0) + counters.get("compiles.optimizer_step", 0)
    compile_s = per_compile * compiles * math.exp(float(noise[1]))
    startup = 0.4 + compile_s
    counters["compile_s"] = compile_s
    epochs = (steady + startup, *([steady] * (timing.epochs - 1)))
    times = Times(
        epoch_s=epochs,
        steady_epochs=tuple(range(1, timing.epochs)),
        horizon_epochs=timing.horizon_epochs,
        compile_s=compile_s,
        loader_wait_s=tuple([0.1 * BASE_EPOCH_S] * timing.epochs),
        first_step_s=startup + steady / timing.steps_per_epoch,
    )
    series = _series(study, planned, steady)
    workload = next(w for w in study.workloads if w.name == planned.workload).info
    state = (
        "not-compiled" if not compiled else {"shared": "shared"}.get(study.compile_cache, "cold" if cold else "warm")
    )
    record = replace(
        TrialRecord.begin(
            study,
            planned,
            started_at="2026-01-01T00:00:00+00:00",
            cache_state=state,  # type: ignore[arg-type]
            recipe=Recipe(execution="compiled" if planned.cell.compiles else "eager"),
        ),
        status="completed",
        ended_at="2026-01-01T00:10:00+00:00",
        environment=ENVIRONMENT,
        data=DataStamp(
            dataset="look-alike",
            dataset_digest="d" * 16,
            stream_hash=f"{planned.workload}-{planned.seed}",
            num_steps=timing.epochs * timing.steps_per_epoch,
        ),
        times=times,
        metric=Metric(
            name=workload.metric,
            value=0.7 + 0.001 * planned.block,
            unit=workload.metric_unit,
            higher_is_better=workload.higher_is_better,
            num_rows=100,
        ),
        peak_memory_gib=1.5,
        final_loss=float(series["loss"].iloc[-1]),
        evidence=Evidence(
            counters=counters,
            events=tuple(
                CompileEvent(step=0, function=function, seconds=per_compile)
                for function in ("forward", "optimizer_step")
                for _ in range(int(counters.get(f"compiles.{function}", 0)))
            ),
        ),
    )
    return record, series


def _acting(planned: PlannedTrial) -> list[str]:
    return [name for name in planned.cell.on if name not in planned.cell.inert]


def _counters(planned: PlannedTrial, study: Study) -> dict[str, float]:
    """Counters as on today's stack: tensor_lr and dynamic_shapes save a compilation, string_keys does nothing."""
    on = _acting(planned)
    counters = {"syncs_per_step": 4.0 if "sync_free" in on else 6.0}
    if planned.cell.compiles:
        forward = 1 if "dynamic_shapes" in on else 2
        step = 0 if not study.compile_step else 1 if "tensor_lr" in on else 2
        counters |= {
            "compiles.forward": forward,
            "recompiles.forward": forward - 1,
            "compiles.optimizer_step": step,
            "recompiles.optimizer_step": max(step - 1, 0),
            "graph_breaks": 0,
            "graphs": 1,
            "limit_hits": 0,
        }
    return counters


def _series(study: Study, planned: PlannedTrial, steady: float) -> pd.DataFrame:
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    step = np.arange(num_steps)
    loss = 0.3 + 0.4 * np.exp(-step / max(num_steps / 3, 1)) + 0.01 * np.sin(step + planned.seed)
    if planned.cell.compiles:
        loss = loss * (1.0 + 1e-7 * (step + 1))
    return pd.DataFrame(
        {
            "step": step,
            "epoch": step // study.timing.steps_per_epoch,
            "loss": loss,
            "lr": np.full(num_steps, 0.005),
            "step_s": np.full(num_steps, steady / study.timing.steps_per_epoch),
            "loader_wait_s": np.full(num_steps, 0.1 * BASE_EPOCH_S / study.timing.steps_per_epoch),
        }
    )
