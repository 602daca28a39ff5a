"""How a trial's process ended without a record -> the record that says why, with the training if that was over."""

import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from ablate.core.record import Failure, Status, TrialRecord
from ablate.core.request import TRAINED_NAME, TrialRequest
from ablate.core.study import Study
from ablate.core.units import format_duration
from ablate.records.store import read_json

LAST_LINES = 60
MOST_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class ChildEnd:
    """How a child ended.

    Attributes:
        returncode: Its return code (negative = signal).
        timed_out: Whether the parent ended it for taking too long.
        disk_error: What it said of a disk that was full or closed.
    """

    returncode: int
    timed_out: bool
    started_at: str
    ended_at: str
    disk_error: str | None = None


def explain_missing_record(study: Study, request: TrialRequest, end: ChildEnd, output: Path) -> TrialRecord:
    """Build the record of a trial whose process left none.

    One that had trained to the end keeps what the training measured; the stage that it was in failed, and says how.

    Args:
        study: The study.
        request: What the process was asked to do.
        end: How it ended.
        output: File with everything it printed.
    """
    text = read_tail(output)
    status, reason = _verdict(end, text, study.trial_timeout_s)
    trained = Path(request.record_folder) / TRAINED_NAME
    if trained.exists():
        record = read_json(trained, TrialRecord)
        *before, last = record.failed_after
        failed = replace(last, reason=reason, traceback=text)
        return replace(record, failed_after=(*before, failed), ended_at=end.ended_at)
    record = request.begin_record(study, end.started_at)
    return replace(record, status=status, failure=Failure(reason=reason, traceback=text), ended_at=end.ended_at)


def read_tail(path: Path) -> str:
    """The last lines of a text file; empty when there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - MOST_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-LAST_LINES:])


def _verdict(end: ChildEnd, output: str, timeout_s: float) -> tuple[Status, str]:
    if end.timed_out:
        return "timed-out", f"took longer than the time-out of {format_duration(timeout_s)} and was ended"
    if end.returncode < 0:
        name = _signal_name(-end.returncode)
        hint = "; the system sends it when memory runs out" if name == "SIGKILL" else ""
        return "killed", f"the process was killed by {name}{hint}"
    if end.returncode == 0:  # Lightning catches SIGTERM and leaves like that
        told = re.search(r"\bSIG(TERM|INT|HUP)\b", output)
        if told:
            return "killed", f"the process was killed by {told[0]}; it caught the signal and ended without a record"
        return "killed", "the process ended without a record: it was told to stop, or its own code called exit"
    last = last_error_line(output)
    said = f": {last}" if last else ""
    return "failed", f"the process ended with exit code {end.returncode} and left no record{said}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_error_line(output: str) -> str:
    """The exception line of a traceback, or the last line that is not blank."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b", line)]
    return (errors or lines or [""])[-1][:300]
