"""What happens to a study -> lines or moving bars on a terminal; drawn by the parent only, at most once a second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichBars
from rich.text import Text

from ablate.core.cell import PlannedTrial
from ablate.core.record import CacheState, TrialRecord
from ablate.core.units import format_duration
from ablate.files.printable import escape_controls

REFRESH_PER_S = 1.0


class Progress(Protocol):
    """Whoever shows the progress of `run_study`."""

    def note(self, text: str) -> None:
        """Show one sentence."""

    def trial_started(self, position: int, total: int, trial: PlannedTrial, cache_state: CacheState) -> None:
        """Show that a trial starts; `position` counts from 1, timed and parity trials apart."""

    def trial_event(self, event: Mapping[str, Any]) -> None:
        """Show a progress line of the trial's process (see `ablate.core.request`)."""

    def trial_ended(self, record: TrialRecord) -> None:
        """Show how the trial ended."""


class SilentProgress(Progress):
    """Shows nothing."""


class PlainProgress:
    """One line per trial, for logs: `[3/6] hm/user-churn naive block 0 (cold) ... 41.2 s, steady 0.52 s/epoch`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_open = False
        self._started = 0.0

    def note(self, text: str) -> None:
        self._write(("\n" if self._is_open else "") + text + "\n")
        self._is_open = False

    def trial_started(self, position: int, total: int, trial: PlannedTrial, cache_state: CacheState) -> None:
        self._started = time.monotonic()
        self._write(f"[{position}/{total}] {describe_trial(trial, cache_state)} ... ")
        self._is_open = True

    def trial_event(self, event: Mapping[str, Any]) -> None:
        return

    def trial_ended(self, record: TrialRecord) -> None:
        prefix = "" if self._is_open else "... "
        self._write(f"{prefix}{describe_end(record, time.monotonic() - self._started)}\n")
        self._is_open = False

    def _write(self, text: str) -> None:
        self._stream.write(escape_controls(text))
        self._stream.flush()


class RichProgress:
    """Bars for the study and for the epochs of the running trial; use it as a context manager."""

    def __init__(self, console: Console, study: str) -> None:
        self._bars = RichBars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )
        self._study_bar: TaskID = self._bars.add_task(f"study {study}", total=None)
        self._epoch_bar: TaskID | None = None
        self._label = ""
        self._started = 0.0

    def __enter__(self) -> RichProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        self._bars.console.print(Text(escape_controls(text)))

    def trial_started(self, position: int, total: int, trial: PlannedTrial, cache_state: CacheState) -> None:
        self._started = time.monotonic()
        self._label = f"[{position}/{total}] {describe_trial(trial, cache_state)}"
        self._bars.update(self._study_bar, total=total, completed=position - 1)
        self._epoch_bar = self._bars.add_task(f"  {self._label}: start", total=None)

    def trial_event(self, event: Mapping[str, Any]) -> None:
        if self._epoch_bar is None:
            return
        epochs, epoch, seconds = event.get("epochs"), event.get("epoch"), event.get("epoch_s")
        label = f"  {self._label}: {event.get('stage', '')}"
        if isinstance(seconds, (int, float)):
            label += f" {format_duration(seconds)}/epoch"
        self._bars.update(
            self._epoch_bar,
            description=label,
            total=epochs if isinstance(epochs, int) else None,
            completed=epoch if isinstance(epoch, int) else None,
        )

    def trial_ended(self, record: TrialRecord) -> None:
        if self._epoch_bar is not None:
            self._bars.remove_task(self._epoch_bar)
            self._epoch_bar = None
        self._bars.update(self._study_bar, advance=1)
        self.note(f"{self._label}  {describe_end(record, time.monotonic() - self._started)}")


def describe_trial(trial: PlannedTrial, cache_state: CacheState) -> str:
    """Name a trial: `hm/user-churn naive block 0 (cold cache)`, `parity of ...` when its times mean nothing."""
    cache = "" if cache_state == "not-compiled" else f" ({cache_state} cache)"
    purpose = "parity of " if trial.purpose == "parity" else ""
    return f"{purpose}{trial.workload} {trial.cell.name} block {trial.block}{cache}"


def describe_end(record: TrialRecord, seconds: float) -> str:
    """Say how a trial ended: `41.2 s, steady 0.520 s/epoch`, or `failed after 3.1 s: <reason>`.

    Of a parity trial only how long it took, and that its dropout masks were not eager's. A stage that failed after the
    training is named: `41.2 s, steady 0.520 s/epoch, prediction failed after the training: <reason>`.
    """
    took = format_duration(seconds)
    if not record.completed:
        reason = record.failure.reason if record.failure else "no reason recorded"
        return f"{record.status} after {took}: {reason}"
    if record.identity.purpose == "parity":
        unaligned = record.parity is not None and any(w.masks == "not aligned" for w in record.parity.windows)
        return f"{took}, dropout masks not aligned" if unaligned else took
    steady = record.times.steady_s if record.times else None
    speed = "no steady state" if steady is None else f"steady {format_duration(steady)}/epoch"
    return ", ".join([took, speed, *map(str, record.failed_after)])
