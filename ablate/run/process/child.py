"""One claimed trial -> a child process that trains it, and its record (written here when the child left none)."""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.core.cell import PlannedTrial
from ablate.core.errors import DiskError, LostLeaseError, TrialError
from ablate.core.record import TrialRecord
from ablate.core.request import EXIT_DISK, TRAINED_NAME
from ablate.files.paths import StudyPaths
from ablate.files.stopwatch import Stopwatch
from ablate.records.store import read_record, write_json, write_record
from ablate.run.process.launch import REQUEST_NAME, Launch, OnEvent
from ablate.run.process.missing_record import ChildEnd, explain_missing_record
from ablate.run.process.parent_death import die_with_parent
from ablate.run.process.signals import stop_signals_wait


def find_reference(trial: PlannedTrial, trials: Sequence[PlannedTrial], paths: StudyPaths) -> Path | None:
    """Find where the eager reference of a trial lies; None for a trial that restarts from none.

    Args:
        trial: A trial about to be trained.
        trials: The planned trials of its study, its reference among them.
        paths: Where records lie.

    Raises:
        TrialError: the reference did not complete, so there is nothing to compare with.
    """
    if trial.reference is None:
        return None
    slugs = [other.slug for other in trials if other.key == trial.reference]
    folder = paths.records / slugs[0] if slugs else None
    if folder is None or not (folder / "record.json").exists():
        raise TrialError(f"not trained: its eager reference {trial.reference} has no record")
    record = read_record(folder)
    if not record.completed:
        reason = record.failure.reason if record.failure else record.status
        raise TrialError(f"not trained: its eager reference did not complete ({record.status}: {reason})")
    return folder


TRAIN_COMMAND: tuple[str, ...] = (sys.executable, "-m", "ablate.train")
OUTPUT_NAME = "stderr.txt"
RESULT_NAMES = (
    "record.json", "series.parquet", "evidence.json", "parity.parquet", "predictions.parquet", TRAINED_NAME
)  # fmt: skip
CHECKPOINTS_NAME = "checkpoints"
GRACE_S = 5.0
LONGEST_SELECT_S = 0.5


def run_child(launch: Launch) -> TrialRecord:
    """Train one trial in a fresh process and return its record, which is then on disk in every case.

    Raises:
        KeyboardInterrupt: the user interrupted; the child is gone and no record of it is kept, unless it had ended.
        DiskError: the child could not write; no record of it is kept.
        LostLeaseError: this worker lost its leases; the child is gone and others take the trial over.
    """
    folder = Path(launch.request.record_folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in RESULT_NAMES:
        (folder / name).unlink(missing_ok=True)  # of a start that was interrupted; ended attempts were set aside
    shutil.rmtree(folder / CHECKPOINTS_NAME, ignore_errors=True)
    end = _execute(launch, folder)
    record = read_record(folder) if (folder / "record.json").exists() else None
    if record is None and end.returncode == EXIT_DISK:
        full = f"cannot write {folder}: the disk is full; free some space and run again, every finished trial is kept"
        raise DiskError(end.disk_error or full)
    if record is None or (end.timed_out and not record.completed):
        record = explain_missing_record(launch.study, launch.request, end, folder / OUTPUT_NAME)
        write_record(folder, record)
    (folder / TRAINED_NAME).unlink(missing_ok=True)
    return record


def _execute(launch: Launch, folder: Path) -> ChildEnd:
    reading, writing = os.pipe()
    watch = Stopwatch()
    process = None
    disk_errors: list[str] = []

    def hear(event: Mapping[str, Any]) -> None:
        if "disk_error" in event:
            disk_errors.append(str(event["disk_error"]))
        else:
            launch.on_event(event)

    try:
        with stop_signals_wait():  # a signal must not come between the start and its being known here
            try:
                process = _start(launch, folder, writing)
            finally:
                os.close(writing)
        launch.describe(process.pid)
        deadline = time.monotonic() + launch.study.trial_timeout_s
        timed_out = not _follow(process, reading, replace(launch, on_event=hear), deadline)
    finally:
        try:
            if process is not None:
                _end(process)
        finally:
            os.close(reading)
    return ChildEnd(
        returncode=process.returncode,
        timed_out=timed_out,
        started_at=watch.started_at,
        ended_at=watch.ended_at(),
        disk_error=disk_errors[0] if disk_errors else None,
    )


def _start(launch: Launch, folder: Path, progress: int) -> subprocess.Popen[bytes]:
    request_path = folder / REQUEST_NAME
    write_json(request_path, replace(launch.request, progress_fd=progress))
    with (folder / OUTPUT_NAME).open("wb") as output:
        command = [*launch.command, "trial", str(request_path)]
        return subprocess.Popen(
            die_with_parent(command) if launch.parent_death else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=launch.environment,
            cwd=folder,
            pass_fds=(*launch.inherited, progress),
            start_new_session=True,
        )


def _follow(process: subprocess.Popen[bytes], reading: int, launch: Launch, deadline: float) -> bool:
    """Pass on progress until the child ends; False when the deadline came first.

    Raises:
        LostLeaseError: the leases are lost.
    """
    os.set_blocking(reading, False)
    buffered, is_open = b"", True
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if launch.is_lost():
                raise LostLeaseError(
                    f"trial {launch.request.trial.key} was ended: this worker could not reach the ledger for some "
                    "time, and others take the trial over; start the worker again"
                )
            if not is_open:
                _wait(process, min(left, LONGEST_SELECT_S))
            elif selector.select(min(left, LONGEST_SELECT_S)):
                buffered, is_open = _read_events(reading, buffered, launch.on_event)
        if is_open:
            _read_events(reading, buffered, launch.on_event)
    return True


def _read_events(reading: int, buffered: bytes, on_event: OnEvent) -> tuple[bytes, bool]:
    """Read what is there, pass on whole lines; returns the unfinished rest and whether more may come."""
    try:
        chunk = os.read(reading, 65536)
    except BlockingIOError:
        return buffered, True
    *lines, rest = (buffered + chunk).split(b"\n")
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            on_event(event)
    return rest, bool(chunk)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child if it still runs (politely, then not), and whatever it left behind in its process group.

    A second Ctrl-C cuts the polite part short.
    """
    try:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            _wait(process, GRACE_S)
    finally:
        with stop_signals_wait():
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
