"""`ablate worker`: one more process that trains trials of a study; and the workers that `ablate run` starts itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from ablate.cli.loading import LoadedStudy, load_study
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

if TYPE_CHECKING:
    from ablate.run.devices import Device
    from ablate.run.executors.executors import Workers
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

    loaded = first_look(load_study(spec, runs=runs, reports=REPORTS, blocks=blocks, workloads=workload, device=device))
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


@dataclass(frozen=True, kw_only=True)
class Team:
    """Who trains a study: this process and more of this host, or workers that an executor starts elsewhere.

    Attributes:
        spec: Spec of the study.
        runs: Folder under which its records go.
        workloads: Only these workloads; None = all.
        device: Value of `--device`.
        number: Value of `--workers`: a number, or `all` for one per GPU of this host.
        executor: `local`: this process is one of the workers; otherwise it only looks on.
        options: Values of `--executor-option`.
        restart_blocks, ledger, tracking_uri: As given.
    """

    spec: Path
    runs: Path
    workloads: Sequence[str] | None
    device: str | None
    number: str
    executor: Literal["local", "submitit", "ray"]
    options: Sequence[str]
    restart_blocks: bool
    ledger: str | None
    tracking_uri: str | None

    def train(self, loaded: LoadedStudy, *, retry_failed: bool, seat: Device | None) -> RunOutcome:
        """Train what is missing; `seat` is the device of this process.

        Raises:
            UserError: as `run_study`, or a worker cannot be started.
        """
        from ablate.cli.pipeline import open_progress, train_study
        from ablate.run.executors.coordinate import coordinate
        from ablate.run.executors.executors import start_workers
        from ablate.run.process.signals import stop_signals_interrupt, stop_signals_wait

        number = self._number(loaded)
        if self.executor != "local":
            workers = self._workers(loaded, number)
            with open_progress(loaded.study.name) as progress:
                return coordinate(
                    loaded.study,
                    loaded.design,
                    loaded.paths,
                    progress,
                    lambda: start_workers(self.executor, workers),
                    retry_failed=retry_failed,
                    workloads=self.workloads,
                    ledger=self.ledger,
                )
        crew = None
        with stop_signals_interrupt():
            try:
                if number > 1:
                    with stop_signals_wait():  # until there is somebody to stop
                        crew = start_workers("local", self._workers(loaded, number - 1))
                outcome = train_study(
                    loaded,
                    self.workloads,
                    retry_failed=retry_failed,
                    tracking_uri=self.tracking_uri,
                    device=seat,
                    restart_blocks=self.restart_blocks,
                    ledger=self.ledger,
                )
                if crew is not None and not outcome.interrupted:
                    crew.wait()
            finally:
                if crew is not None:
                    crew.stop()
        for problem in crew.problems() if crew is not None and not outcome.interrupted else ():
            print_error(problem)
        return outcome

    def _number(self, loaded: LoadedStudy) -> int:
        from ablate.run.devices import find_devices

        if self.number == "all" and self.executor == "local":
            return max(1, len(find_devices(loaded.study.device)))
        if not self.number.isdecimal() or not 1 <= int(self.number) <= 1000:
            raise UserError(f"--workers {self.number}: give a number from 1, or all for one per GPU of this host")
        return int(self.number)

    def _workers(self, loaded: LoadedStudy, number: int) -> Workers:
        from ablate.run.executors.executors import Workers, worker_command
        from ablate.run.ledger.open import ADDRESS_VARIABLE, find_address

        study = loaded.study
        if self.ledger is not None:
            os.environ[ADDRESS_VARIABLE] = self.ledger  # workers inherit it: a command line is there for all to read
        pairs = [option.partition("=") for option in self.options]
        if any(not equals for _, equals, _ in pairs):
            raise UserError("--executor-option is written name=value, e.g. slurm_partition=gpu")
        arguments = [str(self.spec.resolve()), "--runs", str(self.runs.resolve()), "--blocks", str(study.blocks)]
        arguments += [word for name in self.workloads or () for word in ("--workload", name)]
        arguments += ["--restart-blocks"] if self.restart_blocks else []
        if self.executor != "local" or self.device in ("cpu", "cuda"):
            arguments += ["--device", study.device]
        return Workers(
            command=worker_command(arguments),
            number=number,
            folder=loaded.paths.root / "workers",
            device=study.device,
            num_cpus=(study.num_threads or 1) + study.loader.num_workers,
            shares_database=find_address(study, self.ledger) is not None,
            options={name: value for name, _, value in pairs},
        )


def sit_down(loaded: LoadedStudy, wish: str | None) -> Device:
    """Take a device for this process, until it ends: the one asked for, else the first that has no worker."""
    from ablate.run.devices import find_devices, take_seat

    device, seat = take_seat(find_devices(loaded.study.device), wish)
    if seat is None:
        print_error(f"another worker of this machine uses {device.name}; taking turns")
    return device


def _describe(loaded: LoadedStudy, outcome: RunOutcome) -> str:
    planned, completed = outcome.planned + outcome.parity_planned, outcome.completed + outcome.parity_completed
    trained = outcome.trained + outcome.parity_trained
    state = "interrupted: " if outcome.interrupted else ""
    return f"study {loaded.study.name}: {state}trained {trained} trials here, {completed} of {planned} are completed"
