"""A study and its design -> what training it takes: cells, aliases, trials, and an estimate of the hours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ablate.core.cell import Design, PlannedTrial, Purpose
from ablate.core.errors import UserError
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.files.paths import StudyPaths
from ablate.records.store import read_records
from ablate.run.ledger.lock_owner import LockOwner, describe_owner, find_leased
from ablate.run.plan.estimate import estimate


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
class ParityPlan:
    """The parity trials of a study.

    Attributes:
        asked: Which ones the spec asks for: `default`, `all` or `off`.
        cells: Names of the cells that are tested, eager first.
        windows: First steps of the windows.
        trials, done, failed, estimated_s, assumption: As in `Plan`.
    """

    asked: str
    cells: tuple[str, ...]
    windows: tuple[int, ...]
    trials: int
    done: int
    failed: int
    estimated_s: float
    assumption: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Counts and time of a study; `trials` and what follows are about the timed trials alone.

    Attributes:
        keys_per_block: Distinct effective keys: trials per workload and block.
        aliases: Effective keys that several cells share -> their names; measured once a block.
        trials: Trials in all; `done` of them have a record, `failed` of those did not complete.
        estimated_s: Wall time of the trials that are still missing.
        assumption: Where the estimate comes from, in words.
        parity: The parity trials.
        under_other_margins: How many of the trials that ended ran when the spec stated other margins, or none.
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
    parity: ParityPlan
    under_other_margins: int = 0


def select_trials(study: Study, design: Design, workloads: Sequence[str] | None) -> tuple[PlannedTrial, ...]:
    """The timed trials to train, in execution order: block by block, workloads interleaved in spec order.

    Raises:
        UserError: a workload that the study does not have.
    """
    return _select(study, design.trials, workloads)


def select_parity(study: Study, design: Design, workloads: Sequence[str] | None) -> tuple[PlannedTrial, ...]:
    """The parity trials to train, in execution order, eager before those that restart from it.

    Raises:
        UserError: a workload that the study does not have.
    """
    return _select(study, design.parity, workloads)


def _select(study: Study, trials: Sequence[PlannedTrial], workloads: Sequence[str] | None) -> tuple[PlannedTrial, ...]:
    names = [choice.name for choice in study.workloads]
    for name in workloads or ():
        if name not in names:
            raise UserError(f"study {study.name} has no workload {name!r}; it has {', '.join(names)}")
    chosen = [
        trial for trial in trials if (not workloads or trial.workload in workloads) and trial.block < study.blocks
    ]
    return tuple(sorted(chosen, key=lambda trial: (trial.block, trial.order, names.index(trial.workload))))


def make_plan(
    study: Study, design: Design, trials: Sequence[PlannedTrial], paths: StudyPaths, parity: Sequence[PlannedTrial] = ()
) -> Plan:
    """Count what `run_study` would do with these trials.

    Args:
        study: The study.
        design: Its cells and trials.
        trials: The selected timed trials (see `select_trials`).
        paths: Where earlier records lie, if any.
        parity: The selected parity trials (see `select_parity`).
    """
    records = study_records(study, paths)
    estimated_s, assumption = _estimate_missing(study, trials, records)
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
        parity=_parity_plan(study, parity, records),
        under_other_margins=sum(dict(r.margins) != study.margins_of(r.identity.workload) for r in done),
    )


def _parity_plan(study: Study, trials: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]) -> ParityPlan:
    done = [records[trial.key] for trial in trials if trial.key in records]
    estimated_s, assumption = _estimate_missing(study, trials, records)
    return ParityPlan(
        asked=study.equivalence.parity,
        cells=tuple(dict.fromkeys(trial.cell.name for trial in trials)),
        windows=trials[0].windows if trials else (),
        trials=len(trials),
        done=len(done),
        failed=sum(not record.completed for record in done),
        estimated_s=estimated_s,
        assumption=assumption,
    )


def _estimate_missing(
    study: Study, trials: Sequence[PlannedTrial], records: Mapping[str, TrialRecord]
) -> tuple[float, str]:
    return estimate(study, [trial for trial in trials if trial.key not in records], list(records.values()))


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


@dataclass(frozen=True, kw_only=True)
class TrialStatus:
    """State of one planned trial: `waiting`, `running`, or the status of its record."""

    key: str
    slug: str
    workload: str
    block: int
    cell: str
    state: str
    purpose: Purpose = "timed"
    attempt: int | None = None
    reason: str | None = None
    steady_s: float | None = None
    horizon_s: float | None = None
    worker: str | None = None


def trial_states(
    study: Study, design: Design, paths: StudyPaths, running: Mapping[str, LockOwner] | None = None
) -> tuple[TrialStatus, ...]:
    """State of every planned trial, timed ones first.

    Args:
        study: The study.
        design: Its trials.
        paths: Its files.
        running: Who trains which slug (see `ablate.run.ledger.open.find_running`); None = as the leases here tell.
    """
    records = study_records(study, paths)
    owners = find_leased(paths) if running is None else running
    return tuple(
        _state(trial, records.get(trial.key), owners.get(trial.slug)) for trial in (*design.trials, *design.parity)
    )


def _state(trial: PlannedTrial, record: TrialRecord | None, owner: LockOwner | None) -> TrialStatus:
    running = owner is not None
    times = record.times if record else None
    return TrialStatus(
        key=trial.key,
        slug=trial.slug,
        workload=trial.workload,
        block=trial.block,
        cell=trial.cell.name,
        state="running" if running else record.status if record else "waiting",
        purpose=trial.purpose,
        attempt=record.identity.attempt if record else None,
        reason=record.failure.reason if record and record.failure else None,
        steady_s=times.steady_s if times else None,
        horizon_s=times.horizon_s if times else None,
        worker=None if owner is None else describe_owner(owner),
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
