"""Who holds the lock of a device, trial or block -> what to tell who waits; an orphan past its time-out is ended."""

from __future__ import annotations

import math
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ablate.files.locks import is_held, process_exists, read_owner
from ablate.files.paths import StudyPaths

PREPARING = "(preparing the data)"


@dataclass(frozen=True, kw_only=True)
class LockOwner:
    """What a worker writes into the locks that it holds; a field that is unknown has its default.

    Attributes:
        study: Name of its study.
        root: Folder of its study.
        trial: Key of the trial that it trains; empty while none has started.
        parent: Process id of the worker.
        child: Process id (and process group) of the trial.
        deadline: When the trial is overdue, on the clock that counts from the start of the machine.
        request: Path of the trial's request, which identifies its process.
        host, device: Names of the machine and of what it trains on.
    """

    study: str = ""
    root: str = ""
    trial: str = ""
    parent: int = 0
    child: int = 0
    deadline: float = math.inf
    request: str = ""
    host: str = ""
    device: str = ""

    @classmethod
    def here(cls, *, study: str, root: Path, device: str = "") -> LockOwner:
        """This process, before it has started a trial."""
        return cls(study=study, root=str(root), parent=os.getpid(), host=socket.gethostname(), device=device)

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> LockOwner:
        """Read what stands in a lock, which all users of the host may have written: other types count as unknown."""
        return cls(**{f.name: content[f.name] for f in fields(cls) if type(content.get(f.name)) is type(f.default)})

    def training(self, trial: str, child: int, *, timeout_s: float = math.inf, request: Path | str = "") -> LockOwner:
        """The same owner, whose child now trains a trial."""
        deadline = time.monotonic() + timeout_s
        return replace(self, trial=trial, child=child, deadline=deadline, request=str(request))

    def to_json(self) -> dict[str, Any]:
        """What is known, as `parse` reads it."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is known to be on another host."""
        return self.host not in ("", socket.gethostname())


def describe_wait(owner: LockOwner, *, root: Path, device: str | None = None) -> str:
    """One sentence that tells what this process waits for.

    Args:
        owner: Who has the lock.
        root: Folder of the study that waits.
        device: Name of the device that is waited for; None = a trial.
    """
    ours, is_gone = owner.root == str(root), not owner.is_elsewhere and not process_exists(owner.parent)
    if owner.trial and owner.parent and is_gone:
        study = "" if ours else f" of study {owner.study}"
        return f"waiting for trial {owner.trial}{study} left by an earlier ablate run (pid {owner.child})"
    if device is None:
        who = f" ({describe_owner(owner)})" if owner.parent else ""
        return f"no trial is free; other workers are still running some of these{who}"
    if not owner.parent:
        return f"waiting for {device}: another ablate process uses it"
    if is_gone:
        return f"waiting for {device}: a process left by an earlier ablate run uses it"
    who = "another ablate run of this study" if ours else f"study {owner.study}"
    return f"waiting for {device}: {who} (pid {owner.parent}) has it; taking turns"


def describe_owner(owner: LockOwner) -> str:
    """Name a worker: `pid 4711 on gpu-3 (NVIDIA H100)`, with a remark when it is gone and its trial trains on."""
    on, device = f" on {owner.host}" if owner.host else "", f" ({owner.device})" if owner.device else ""
    is_gone = owner.host == socket.gethostname() and not process_exists(owner.parent)
    return f"pid {owner.parent}{on}{device}" + (", which is gone; its trial trains on" if is_gone else "")


def end_overdue_orphan(owner: LockOwner) -> bool:
    """End a trial whose worker is gone and whose time-out has passed; True when a signal was sent.

    The process is recognized by its request on its command line, so that a reused process id is never hit; where the
    system does not show command lines nothing is ended and the user decides.
    """
    if owner.is_elsewhere or time.monotonic() < owner.deadline or process_exists(owner.parent):
        return False
    if not _runs_request(owner.child, owner.request):
        return False
    try:
        os.killpg(owner.child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _runs_request(pid: int, request: str) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return bool(request) and arguments[-3:] == [b"trial", request.encode(), b""]


def lease_path(paths: StudyPaths, slug: str) -> Path:
    """Lock file of one trial."""
    return paths.leases / f"{slug}.lock"


def block_lease_path(paths: StudyPaths, block: str) -> Path:
    """Lock file of one block (see `ablate.run.ledger.trial_queue`)."""
    return paths.leases / "blocks" / f"{block}.lock"


def find_leased(paths: StudyPaths) -> dict[str, LockOwner]:
    """Slugs of the trials that are trained on this host right now, and who trains them."""
    held = (path for path in sorted(paths.leases.glob("*.lock")) if is_held(path))
    return {path.stem: LockOwner.parse(read_owner(path)) for path in held}
