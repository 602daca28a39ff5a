"""A study and its design -> what training it takes: cells, aliases, trials, and an estimate of the hours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from ablate.core.cell import Design, PlannedTrial
from ablate.core.errors import UserError
from ablate.core.paths import StudyPaths
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.records.store import read_records
from ablate.run.leases import is_running

START_S = 15.0  # process, data and graph
PROCESS_START_S = 5.0  # of that, before the first time stamp of a record: Python and its imports
COLD_COMPILE_S, WARM_COMPILE_S = 75.0, 25.0
STEP_S = {"cpu": 0.25, "cuda": 0.05}
REFERENCE_CHANNELS, REFERENCE_BATCH = 128, 256


@dataclass(frozen=True, kw_only=True)
class PlannedCell:
    """One row of the plan: a cell, the key it is measured under, and what it cannot do here."""

    name: str
    arms: tuple[str, ...]
    execution: str
    on: tuple[str, ...]
    effective_key: str
    measured_as: str | None
    inert: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Counts and time of a study.

    Attributes:
        keys_per_block: Distinct effective keys: trials per workload and block.
        aliases: Effective keys that several cells share -> their names; measured once a block.
        trials: Trials in all; `done` of them have a record, `failed` of those did not complete.
        estimated_s: Wall time of the trials that are still missing.
        assumption: Where the estimate comes from, in words.
    """

    study: str
    study_hash: str
    design: str
    device: str
    profile: str | None
    workloads: tuple[str, ...]
    blocks: int
    cells: tuple[PlannedCell, ...]
    keys_per_block: int
    aliases: Mapping[str, tuple[str, ...]]
    trials: int
    done: int
    failed: int
    estimated_s: float
    assumption: str


def select_trials(study: Study, design: Design, workloads: Sequence[str] | None) -> tuple[PlannedTrial, ...]:
    """The trials to train, in execution order: block by block, workloads interleaved in spec order.

    Raises:
        UserError: a workload that the study does not have.
    """
    names = [choice.name for choice in study.workloads]
    for name in workloads or ():
        if name not in names:
            raise UserError(f"study {study.name} has no workload {name!r}; it has {', '.join(names)}")
    chosen = [
        trial
        for trial in design.trials
        if (not workloads or trial.workload in workloads) and trial.block < study.blocks
    ]
    return tuple(sorted(chosen, key=lambda trial: (trial.block, trial.order, names.index(trial.workload))))


def make_plan(study: Study, design: Design, trials: Sequence[PlannedTrial], paths: StudyPaths) -> Plan:
    """Count what `run_study` would do with these trials.

    Args:
        study: The study.
        design: Its cells and trials.
        trials: The selected trials (see `select_trials`).
        paths: Where earlier records lie, if any.
    """
    records = study_records(study, paths)
    missing = [trial for trial in trials if trial.key not in records]
    estimated_s, assumption = estimate(study, missing, list(records.values()))
    done = [records[trial.key] for trial in trials if trial.key in records]
    return Plan(
        study=study.name,
        study_hash=study.hash,
        design=design.kind,
        device=study.device,
        profile=study.profile,
        workloads=tuple(dict.fromkeys(trial.workload for trial in trials)),
        blocks=len({trial.block for trial in trials}),
        cells=_cells(design),
        keys_per_block=len(design.effective_keys),
        aliases=design.aliases(),
        trials=len(trials),
        done=len(done),
        failed=sum(not record.completed for record in done),
        estimated_s=estimated_s,
        assumption=assumption,
    )


def study_records(study: Study, paths: StudyPaths) -> dict[str, TrialRecord]:
    """The latest record of every ended trial of the study, by trial key."""
    latest: dict[str, TrialRecord] = {}
    for _, record in read_records(paths.records):
        known = latest.get(record.identity.key)
        if record.identity.study_hash == study.hash and (
            known is None or known.identity.attempt < record.identity.attempt
        ):
            latest[record.identity.key] = record
    return latest


def estimate(
    study: Study, missing: Sequence[PlannedTrial], records: Sequence[TrialRecord]
) -> tuple[float, str]:
    """Estimate the wall time of missing trials.

    Args:
        study: Gives sizes for the rule of thumb.
        missing: Trials without a record.
        records: Ended trials of the study; completed ones of the same workload and execution mode give the estimate.

    Returns:
        Seconds, and the sentence that says where they come from.
    """
    seen: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.completed:
            place = (record.identity.workload, record.identity.execution)
            seen.setdefault(place, []).append(_seconds(record))
    total, guessed = 0.0, 0
    for trial in missing:
        times = seen.get((trial.workload, trial.cell.cell.execution))
        total += fmean(times) if times else rule_of_thumb_s(study, trial)
        guessed += times is None
    if not missing:
        return 0.0, "nothing is missing"
    if not guessed:
        num_seen = sum(map(len, seen.values()))
        return total, f"from {num_seen} finished trials of this study, {PROCESS_START_S:.0f} s to start each process"
    assumption = f"assumed, not measured: {START_S:.0f} s to start a trial, {_step_s(study):.3g} s a step"
    if study.compile_backend == "inductor":
        assumption += f", {COLD_COMPILE_S:.0f} s to compile, {WARM_COMPILE_S:.0f} s from a warm cache"
    part = f"; for {guessed} of {len(missing)} trials, the others from finished ones"
    return total, assumption + (part if guessed < len(missing) else "")


def rule_of_thumb_s(study: Study, trial: PlannedTrial) -> float:
    """Wall time of one trial when nothing was measured yet: start, steps and, when it compiles, the compiler."""
    steps_s = study.timing.epochs * study.timing.steps_per_epoch * _step_s(study)
    if trial.cell.cell.execution == "eager" or study.compile_backend != "inductor":
        return START_S + steps_s
    is_warm = study.compile_cache == "shared" or (study.compile_cache == "per-cell" and trial.block > 0)
    return START_S + steps_s + (WARM_COMPILE_S if is_warm else COLD_COMPILE_S)


@dataclass(frozen=True, kw_only=True)
class TrialStatus:
    """State of one planned trial: `waiting`, `running`, or the status of its record."""

    key: str
    slug: str
    workload: str
    block: int
    cell: str
    state: str
    attempt: int | None = None
    reason: str | None = None
    steady_s: float | None = None
    horizon_s: float | None = None


def trial_states(study: Study, design: Design, paths: StudyPaths) -> tuple[TrialStatus, ...]:
    """State of every planned trial from records and leases alone (the ledger is not opened)."""
    records = study_records(study, paths)
    return tuple(_state(trial, records.get(trial.key), paths) for trial in design.trials)


def _state(trial: PlannedTrial, record: TrialRecord | None, paths: StudyPaths) -> TrialStatus:
    running = is_running(paths, trial.slug)
    times = record.times if record else None
    return TrialStatus(
        key=trial.key,
        slug=trial.slug,
        workload=trial.workload,
        block=trial.block,
        cell=trial.cell.name,
        state="running" if running else record.status if record else "waiting",
        attempt=record.identity.attempt if record else None,
        reason=record.failure.reason if record and record.failure else None,
        steady_s=times.steady_s if times else None,
        horizon_s=times.horizon_s if times else None,
    )


def _cells(design: Design) -> tuple[PlannedCell, ...]:
    first: dict[str, str] = {}
    rows = []
    for cell in design.cells:
        measured = first.setdefault(cell.effective_key, cell.name)
        rows.append(
            PlannedCell(
                name=cell.name,
                arms=cell.arms,
                execution=cell.cell.execution,
                on=cell.on,
                effective_key=cell.effective_key,
                measured_as=None if measured == cell.name else measured,
                inert=dict(cell.inert),
            )
        )
    return tuple(rows)


def _step_s(study: Study) -> float:
    """Seconds a step, in proportion to width and batch from 128 channels and 256 seeds, with a floor for overhead."""
    size = study.training.channels * study.training.batch_size / (REFERENCE_CHANNELS * REFERENCE_BATCH)
    if study.device == "cpu":
        return max(0.02, STEP_S["cpu"] * size)
    return max(0.01, STEP_S["cuda"] * math.sqrt(size))


def _seconds(record: TrialRecord) -> float:
    """Wall time of an ended trial, the start of its process included."""
    start, end = datetime.fromisoformat(record.started_at), datetime.fromisoformat(record.ended_at)
    return PROCESS_START_S + max(0.0, (end - start).total_seconds())
