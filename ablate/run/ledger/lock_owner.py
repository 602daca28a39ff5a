"""Who holds the lock of a device, trial or block -> what to tell who waits; an orphan past its time-out is ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablate.files.locks import is_held, process_exists, read_holder
from ablate.files.paths import StudyPaths

PREPARING = "(preparing the data)"


def make_holder(
    *,
    study: str,
    root: Path,
    trial: str = "",
    child: int = 0,
    timeout_s: float | None = None,
    request: Path | None = None,
    worker: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What a runner writes into the lease and device lock of a trial that it has started.

    Args:
        study: Name of the study.
        root: Folder of the study.
        trial: Key of the trial; empty while none has started.
        child: Process id (and process group) of the trial.
        timeout_s: Seconds after which the trial is overdue, on the clock that counts from the start of the machine.
        request: Path of its request, which identifies the process.
        worker: Environment of the runner, which names its host and device.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    return {
        "study": study,
        "root": str(root),
        "trial": trial,
        "parent": os.getpid(),
        "child": child,
        "deadline": deadline,
        "request": None if request is None else str(request),
        "host": socket.gethostname(),
        "device": (worker or {}).get("device", ""),
    }


def describe_wait(holder: Mapping[str, Any], *, root: Path, what: str, turns: bool = True) -> str:
    """One sentence that tells what this process waits for.

    Args:
        holder: What the holder of the lock wrote (see `make_holder`); may be empty.
        root: Folder of the study that waits.
        what: The thing waited for, e.g. a device name or a block.
        turns: Whether it is given back after each trial, as a device is.
    """
    trial, parent, child = holder.get("trial"), holder.get("parent"), holder.get("child")
    if not parent:
        return f"waiting for {what}: another ablate process uses it"
    ours = holder.get("root") == str(root)
    if holder.get("host", socket.gethostname()) != socket.gethostname():
        return f"waiting for {what}: a worker on {holder['host']} (pid {parent}) has it"
    if process_exists(parent):
        owner = "another ablate run of this study" if ours else f"study {holder.get('study')}"
        return f"waiting for {what}: {owner} (pid {parent}) has it" + ("; taking turns" if turns else "")
    if not trial:
        return f"waiting for {what}: a process left by an earlier ablate run uses it"
    owner = "" if ours else f" of study {holder.get('study')}"
    return f"waiting for trial {trial}{owner} left by an earlier ablate run (pid {child})"


def describe_holder(holder: Mapping[str, Any]) -> str:
    """Name a worker: `pid 4711 on gpu-3 (NVIDIA H100)`, with a remark when it is gone and its trial trains on."""
    host, parent, device = holder.get("host", ""), holder.get("parent"), holder.get("device")
    name = f"pid {parent}" + (f" on {host}" if host else "") + (f" ({device})" if device else "")
    is_gone = host == socket.gethostname() and not process_exists(parent)
    return f"{name}, which is gone; its trial trains on" if is_gone else name


def end_overdue_orphan(holder: Mapping[str, Any]) -> bool:
    """End a trial whose runner is gone and whose time-out has passed; True when a signal was sent.

    The process is recognized by its request on its command line, so that a reused process id is never hit; where the
    system does not show command lines nothing is ended and the user decides.
    """
    parent, child, deadline = holder.get("parent"), holder.get("child"), holder.get("deadline")
    if holder.get("host", socket.gethostname()) != socket.gethostname():
        return False
    if not isinstance(deadline, float) or time.monotonic() < deadline or process_exists(parent):
        return False
    if not isinstance(child, int) or not _runs_request(child, holder.get("request")):
        return False
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _runs_request(pid: int, request: object) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return isinstance(request, str) and arguments[-3:] == [b"trial", request.encode(), b""]


def lease_path(paths: StudyPaths, slug: str) -> Path:
    """Lock file of one trial."""
    return paths.leases / f"{slug}.lock"


def block_lease_path(paths: StudyPaths, block: str) -> Path:
    """Lock file of one block (see `ablate.run.ledger.trial_queue`)."""
    return paths.leases / "blocks" / f"{block}.lock"


def is_running(paths: StudyPaths, slug: str) -> bool:
    """Tell whether a process trains this trial right now, on this host."""
    return is_held(lease_path(paths, slug))


def find_leased(paths: StudyPaths) -> dict[str, Mapping[str, Any]]:
    """Slugs of the trials that are trained on this host right now, and who trains them."""
    held = (path for path in sorted(paths.leases.glob("*.lock")) if is_held(path))
    return {path.stem: read_holder(path) for path in held}
