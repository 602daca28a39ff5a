"""`ablate worker`: one more process that trains trials of a study, on this host or another one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from ablate.cli.loading import LoadedStudy, load_study
from ablate.cli.options import (
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
)
from ablate.cli.output import print_error, print_json, print_line

if TYPE_CHECKING:
    from ablate.run.devices import Device
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
    from ablate.cli.sequential import first_look
    from ablate.run.progress import PlainProgress
    from ablate.run.study import run_study

    loaded = first_look(
        load_study(spec, runs=runs, reports=REPORTS, blocks=blocks, workloads=workload, device=device)
    )
    outcome = run_study(
        loaded.study,
        loaded.design,
        loaded.paths,
        PlainProgress(sys.stderr),
        workloads=workload,
        device=sit_down(loaded, device),
        restart_blocks=restart_blocks,
        ledger=ledger,
    )
    if as_json:
        print_json(outcome)
    else:
        print_line(_describe(loaded, outcome))
    raise typer.Exit(outcome.exit_code)


def sit_down(loaded: LoadedStudy, wish: str | None) -> Device:
    """Take a device for this process, until it ends: the one asked for, else the first that has no worker."""
    from ablate.run.seats import find_devices, take_seat

    device, seat = take_seat(find_devices(loaded.study.device), wish)
    if seat is None:
        print_error(f"another worker of this machine uses {device.name}; taking turns")
    return device


def _describe(loaded: LoadedStudy, outcome: RunOutcome) -> str:
    planned, completed = outcome.planned + outcome.parity_planned, outcome.completed + outcome.parity_completed
    trained = outcome.trained + outcome.parity_trained
    state = "interrupted: " if outcome.interrupted else ""
    return f"study {loaded.study.name}: {state}trained {trained} trials here, {completed} of {planned} are completed"
