"""`ablate run`, `status`, `show`: the commands that start trials or look at them."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ablate.cli.loading import LoadedStudy, find_paths, load_study, write_options
from ablate.cli.planning import count, describe_profile, margin_lines
from ablate.cli.terminal import (
    REPORTS,
    RUNS,
    Blocks,
    DeviceWish,
    Json,
    LedgerAddress,
    Reports,
    RestartBlocks,
    Runs,
    Spec,
    StoredStudy,
    TrackingUri,
    Workloads,
    print_error,
    print_json,
    print_line,
    print_table,
)
from ablate.core.errors import UserError
from ablate.core.units import format_duration
from ablate.run.options import RunOptions

if TYPE_CHECKING:
    from ablate.core.study import Study
    from ablate.files.paths import StudyPaths
    from ablate.run.ledger.lock_owner import LockOwner
    from ablate.run.outcome import RunOutcome
    from ablate.run.plan.plan import TrialStatus


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (run, status, show):
        app.command()(command)


def run(
    spec: Spec,
    workload: Workloads = None,
    blocks: Blocks = None,
    runs: Runs = RUNS,
    reports: Reports = REPORTS,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Train failed trials again, as a flagged next attempt.")
    ] = False,
    device: DeviceWish = None,
    restart_blocks: RestartBlocks = False,
    ledger: LedgerAddress = None,
    workers: Annotated[
        str, typer.Option("--workers", help="How many processes train, this one included; all: one per GPU.")
    ] = "1",
    executor: Annotated[
        str, typer.Option("--executor", help="Who starts workers: local (this host), submitit (SLURM) or ray.")
    ] = "local",
    executor_option: Annotated[
        list[str] | None,
        typer.Option("--executor-option", help="For submitit, e.g. slurm_partition=gpu; may be given several times."),
    ] = None,
    tracking_uri: TrackingUri = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Stop after the trials and MLflow.")] = False,
    as_json: Json = False,
) -> None:
    """Train what is missing of a study, send it to MLflow, analyze it and write the PDF; resumes by itself."""
    from ablate.cli.pipeline import finish_study, first_look, next_look
    from ablate.cli.workers import check_options, reserve_device, train

    pairs = [option.partition("=") for option in executor_option or ()]
    if any(not equals for _, equals, _ in pairs):
        raise UserError("--executor-option is written name=value, e.g. slurm_partition=gpu")
    options = RunOptions(
        workloads=tuple(workload or ()),
        device=device,
        ledger=ledger,
        tracking_uri=tracking_uri,
        retry_failed=retry_failed,
        restart_blocks=restart_blocks,
        workers=workers,
        executor=executor,
        executor_options={name: value for name, _, value in pairs},
    )
    loaded = first_look(load_study(spec, options, runs=runs, reports=reports, blocks=blocks))
    check_options(loaded, options)
    words = write_options(options, runs=runs, reports=reports, blocks=blocks)
    resume = shlex.join(["ablate", "run", str(spec), *words])
    _announce(loaded)
    reserved = reserve_device(loaded.study, options) if executor == "local" else None
    try:
        outcome = train(loaded, options, spec, reserved)
        while not outcome.interrupted and (longer := next_look(loaded)) is not None:
            loaded = longer
            print_error(f"the intervals are wider than the target: going on to {loaded.study.blocks} blocks")
            outcome = train(loaded, replace(options, retry_failed=False), spec, reserved)
        if not outcome.interrupted:
            finish_study(loaded, outcome, spec, tracking_uri=tracking_uri, report=not no_report, as_json=as_json)
    except KeyboardInterrupt:
        print_error(f"interrupted; resume with: {resume}")
        raise typer.Exit(3) from None
    if outcome.interrupted:
        print_error(
            f"interrupted after {count(outcome.trained + outcome.parity_trained, 'trial')}, {outcome.completed} of "
            f"{outcome.planned} are completed{_of_parity(outcome)}; resume with: {resume}"
        )
        if as_json:
            print_json({"outcome": outcome, "resume": resume})
    raise typer.Exit(outcome.exit_code)


def _of_parity(outcome: RunOutcome) -> str:
    if not outcome.parity_planned:
        return ""
    return f" and {outcome.parity_completed} of {count(outcome.parity_planned, 'parity trial')}"


def status(spec: StoredStudy, runs: Runs = RUNS, ledger: LedgerAddress = None, as_json: Json = False) -> None:
    """Tell which trials of a study are completed, running (and where), waiting or failed, and why."""
    from ablate.records.store import read_design, read_study
    from ablate.run.plan.plan import trial_states

    paths = find_paths(spec, runs=runs, reports=REPORTS)
    study = read_study(paths.study_json)
    running = _running_anywhere(study, paths, ledger) if (paths.root / "ledger.json").exists() else None
    states = trial_states(study, read_design(paths.design_json), paths, running)
    timed = [state for state in states if state.purpose == "timed"]
    parity = [state for state in states if state.purpose == "parity"]
    if as_json:
        print_json(
            {
                "study": study.name,
                "root": str(paths.root),
                "counts": Counter(state.state for state in timed),
                "trials": timed,
                "parity_counts": Counter(state.state for state in parity),
                "parity": parity,
            }
        )
        return
    print_line(f"study {study.name}: {len(timed)} trials: {_summary(timed)}")
    if parity:
        print_line(f"beside them {count(len(parity), 'parity trial')}: {_summary(parity)}")
    open_ends = [state for state in states if state.state not in ("completed", "waiting")]
    if open_ends:
        print_table(
            ("trial", "state", "reason or worker"),
            ((state.slug, state.state, state.reason or state.worker) for state in open_ends),
        )


def _running_anywhere(study: Study, paths: StudyPaths, ledger: str | None) -> Mapping[str, LockOwner] | None:
    """Who trains which trial, as the ledger in PostgreSQL knows it."""
    from ablate.run.ledger.open import find_address, find_running

    running = find_running(study, paths, find_address(study, ledger))
    if running is None:
        print_error("which trials run is known to the ledger in PostgreSQL: name it with --ledger or ABLATE_LEDGER")
    return running


def _summary(states: Sequence[TrialStatus]) -> str:
    counts = Counter(state.state for state in states)
    return ", ".join(f"{number} {state}" for state, number in counts.most_common())


def show(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Slug or key of a trial, or its record folder.")],
    runs: Runs = RUNS,
    rerun: Annotated[
        Path | None, typer.Option("--rerun", help="Train this one trial once more, into this new folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the record of a trial and the command that trains just this one again."""
    from ablate.records.store import read_record
    from ablate.run.progress import PlainProgress
    from ablate.run.rerun import find_record_folder, rerun_trial

    folder = find_record_folder(trial, runs)
    if rerun is not None:
        record = rerun_trial(folder, rerun, PlainProgress(sys.stderr))
        print_line(str(rerun / "record.json"))
        raise typer.Exit(0 if record.completed else 2)
    record = read_record(folder)
    command = shlex.join(["ablate", "show", str(folder), "--rerun", f"{folder.name}-rerun"])
    if as_json:
        print_json({"folder": str(folder), "command": command, "record": record})
        return
    identity = record.identity
    print_line(f"{identity.key}: {record.status}, attempt {identity.attempt}")
    if record.failure is not None:
        print_line(f"reason: {record.failure.reason}")
    for failed in record.failed_after:
        print_line(str(failed))
    for name, value in _facts(record):
        print_line(f"  {name:24} {value}")
    print_line(f"record: {folder / 'record.json'}")
    print_line(f"train it again with: {command}")


def _facts(record: Any) -> list[tuple[str, str]]:
    identity, times = record.identity, record.times
    facts = [
        ("workload", identity.workload),
        ("arms", ", ".join(identity.arms)),
        ("levels", ", ".join(f"{name}={level}" for name, level in identity.levels.items())),
        ("block, seed, order", f"{identity.block}, {identity.seed}, {identity.order}"),
        ("started, ended", f"{record.started_at}, {record.ended_at}"),
        ("compile cache", record.cache_state),
    ]
    if record.parity is not None:
        facts += [
            (
                f"window from step {window.start}",
                " ".join(part for part in (f"{window.num_steps} steps, masks {window.masks}", window.note) if part),
            )
            for window in record.parity.windows
        ]
    if times is not None:
        facts += [
            (name, format_duration(value))
            for name, value in (
                ("steady epoch", times.steady_s),
                ("horizon", times.horizon_s),
                ("start-up", times.startup_s),
                ("compile", times.compile_s),
            )
            if value is not None
        ]
    if record.metric is not None:
        facts.append((record.metric.name, f"{record.metric.value:.4f} {record.metric.unit}"))
    facts += [(name, f"{value:g}") for name, value in record.evidence.counters.items()]
    return facts


def _announce(loaded: LoadedStudy) -> None:
    from ablate.run.plan.plan import make_plan

    planned = make_plan(loaded.study, loaded.design, loaded.trials, loaded.paths, loaded.parity)
    left, parity = planned.trials - planned.done, planned.parity
    print_error(
        f"study {planned.study} on {planned.device}{describe_profile(planned.profile)}: {planned.trials} trials, "
        f"{left} missing, about {format_duration(planned.estimated_s)} ({planned.assumption})"
    )
    for line in margin_lines(planned):
        print_error(line)
    if parity.trials:
        print_error(
            f"then {count(parity.trials, 'parity trial')}, {parity.trials - parity.done} missing, about "
            f"{format_duration(parity.estimated_s)} ({parity.assumption})"
        )
