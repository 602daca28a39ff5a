"""`ablate worker`: one more process that trains trials of a study; and the workers that `ablate run` starts itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ablate.cli.loading import LoadedStudy, check_folder, load_study, write_options
from ablate.cli.terminal import (
    REPORTS,
    RUNS,
    Blocks,
    DeviceWish,
    Json,
    LedgerAddress,
    RestartBlocks,
    Runs,
    Spec,
    Workloads,
    print_error,
    print_json,
    print_line,
)
from ablate.core.errors import UserError
from ablate.run.options import RunOptions

if TYPE_CHECKING:
    from ablate.core.study import Study
    from ablate.run.devices import Device
    from ablate.run.executors.base import Workers
    from ablate.run.outcome import RunOutcome


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command()(worker)


def worker(
    spec: Spec,
    workload: Workloads = None,
    blocks: Blocks = None,
    runs: Runs = RUNS,
    device: DeviceWish = None,
    restart_blocks: RestartBlocks = False,
    ledger: LedgerAddress = None,
    as_json: Json = False,
) -> None:
    """Train trials of a study beside other workers, until nothing is left; `ablate run` is a worker too."""
    from ablate.cli.pipeline import first_look
    from ablate.run.progress import PlainProgress
    from ablate.run.runner import run_study

    options = RunOptions(workloads=tuple(workload or ()), device=device, restart_blocks=restart_blocks, ledger=ledger)
    loaded = first_look(load_study(spec, options, runs=runs, reports=REPORTS, blocks=blocks))
    check_folder(loaded.paths.root, "--runs")
    outcome = run_study(
        loaded.study,
        loaded.design,
        loaded.paths,
        PlainProgress(sys.stderr),
        options,
        device=reserve_device(loaded.study, options),
    )
    if as_json:
        print_json(outcome)
    else:
        print_line(_describe(loaded, outcome))
    raise typer.Exit(outcome.exit_code)


def check_options(loaded: LoadedStudy, options: RunOptions) -> None:
    """Refuse what cannot be done with these options, before anything is printed or started.

    Raises:
        UserError: a number, a name, an address or a folder that cannot be, or a package that is not installed.
    """
    from ablate.run.executors.registry import find_executor
    from ablate.run.ledger.open import find_address
    from ablate.track.experiment import resolve_uri

    count_workers(loaded.study, options)
    find_executor(options.executor)
    resolve_uri(options.tracking_uri or loaded.study.tracking_uri)
    if (address := find_address(loaded.study, options.ledger)) is not None:
        from ablate.run.ledger.postgresql import parse_address

        parse_address(address)
    check_folder(loaded.paths.root, "--runs")
    check_folder(loaded.paths.report, "--reports")


def count_workers(study: Study, options: RunOptions) -> int:
    """How many processes train.

    Raises:
        UserError: `--workers` is neither a number from 1 nor `all`.
    """
    from ablate.run.devices import find_devices

    if options.workers == "all" and options.executor == "local":
        return max(1, len(find_devices(study.device)))
    if not options.workers.isdecimal() or not 1 <= int(options.workers) <= 1000:
        raise UserError(f"--workers {options.workers}: give a number from 1, or all for one per GPU of this host")
    return int(options.workers)


def train(loaded: LoadedStudy, options: RunOptions, spec: Path, device: Device | None) -> RunOutcome:
    """Train what is missing, here and by more workers of this host, or by workers that an executor starts elsewhere.

    Args:
        loaded: The study.
        options: As `check_options` has let them pass.
        spec: Its spec, for the workers.
        device: Device of this process; None when it only looks on.

    Raises:
        UserError: as `run_study`, or a worker cannot be started.
    """
    from ablate.cli.pipeline import open_progress, train_study
    from ablate.run.executors.coordinate import coordinate
    from ablate.run.executors.registry import start_workers
    from ablate.run.process.signals import stop_signals_interrupt, stop_signals_wait

    number = count_workers(loaded.study, options)
    if device is None:
        workers = _workers(loaded, options, spec, number)
        with open_progress(loaded.study.name) as progress:
            return coordinate(
                loaded.study,
                loaded.design,
                loaded.paths,
                progress,
                lambda: start_workers(options.executor, workers),
                options,
            )
    pool = None
    with stop_signals_interrupt():
        try:
            if number > 1:
                with stop_signals_wait():  # until there is somebody to stop
                    pool = start_workers("local", _workers(loaded, options, spec, number - 1))
            outcome = train_study(loaded, options, device)
            if pool is not None and not outcome.interrupted:
                pool.wait()
        finally:
            if pool is not None:
                pool.stop()
    for problem in pool.problems() if pool is not None and not outcome.interrupted else ():
        print_error(problem)
    return outcome


def _workers(loaded: LoadedStudy, options: RunOptions, spec: Path, number: int) -> Workers:
    from ablate.run.executors.base import Workers, worker_command
    from ablate.run.ledger.open import ADDRESS_VARIABLE, find_address

    study = loaded.study
    if options.ledger is not None:
        os.environ[ADDRESS_VARIABLE] = options.ledger  # workers inherit it: a command line is there for all to read
    same_kind = options.executor != "local" or options.device in ("cpu", "cuda")
    theirs = RunOptions(
        workloads=options.workloads, restart_blocks=options.restart_blocks, device=study.device if same_kind else None
    )
    words = write_options(theirs, runs=loaded.paths.root.parent, blocks=study.blocks)
    return Workers(
        command=worker_command([str(spec.resolve()), *words]),
        number=number,
        folder=loaded.paths.root / "workers",
        device=study.device,
        num_cpus=(study.num_threads or 1) + study.loader.num_workers,
        shares_database=find_address(study, options.ledger) is not None,
        options=options.executor_options,
    )


def reserve_device(study: Study, options: RunOptions) -> Device:
    """Take a device for this process, until it ends: the one asked for, else the first that has no worker."""
    from ablate.run.devices import find_devices, reserve

    device, reservation = reserve(find_devices(study.device), options.device)
    if reservation is None:
        print_error(f"another worker of this machine uses {device.name}; taking turns")
    return device


def _describe(loaded: LoadedStudy, outcome: RunOutcome) -> str:
    planned, completed = outcome.planned + outcome.parity_planned, outcome.completed + outcome.parity_completed
    trained = outcome.trained + outcome.parity_trained
    state = "interrupted: " if outcome.interrupted else ""
    return f"study {loaded.study.name}: {state}trained {trained} trials here, {completed} of {planned} are completed"
