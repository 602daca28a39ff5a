"""Which workers to start -> `WorkerPool`: what every executor is told and what it hands back.

An executor is one file of this folder with an `INFO`. It hands out workers, never trials: who trains what is the
ledger's business, so that an engine that loses or restarts a worker loses nothing.
"""

import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ablate.core.errors import UserError

GRACE_S = 30.0
LOOK_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Which workers to start.

    Attributes:
        command: Command line of one worker, with absolute paths.
        number: How many.
        folder: For what they print.
        device: `cuda`: each needs one GPU; `cpu`.
        num_cpus: CPUs that each needs.
        shares_database: Whether the ledger is a database, so that they may run on several hosts.
        options: What the engine shall know besides, e.g. `{"slurm_partition": "gpu"}`.
    """

    command: Sequence[str]
    number: int
    folder: Path
    device: Literal["cpu", "cuda"]
    num_cpus: int
    shares_database: bool
    options: Mapping[str, str]


class WorkerPool(ABC):
    """Workers that were started."""

    @abstractmethod
    def running(self) -> int:
        """How many have not ended; those that wait for a place in a queue count."""

    @abstractmethod
    def problems(self) -> list[str]:
        """One sentence for each that ended otherwise than by being done."""

    @abstractmethod
    def stop(self) -> None:
        """End those that run, so that they can go on later; does nothing when all have ended."""

    def wait(self) -> None:
        """Wait until all have ended by themselves."""
        while self.running():
            time.sleep(LOOK_S)


@dataclass(frozen=True, kw_only=True)
class ExecutorInfo:
    """One executor.

    Attributes:
        name: Value of `--executor`.
        start: Starts workers; raises `UserError` when an option is wrong, or it spans hosts and the ledger is a file.
        package: What it imports that not everybody has installed.
        extra: Extra of `ablate-study` that installs it.
    """

    name: str
    start: Callable[[Workers], WorkerPool]
    package: str | None = None
    extra: str | None = None


def run_worker(command: Sequence[str]) -> int:
    """Run one worker inside of a job and return its exit code; told to stop, it stops its trial first."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def worker_command(arguments: Sequence[str]) -> list[str]:
    """Command line of `ablate worker` with this interpreter."""
    return [sys.executable, "-m", "ablate", "worker", *arguments]


def require_database(workers: Workers, where: str) -> None:
    """Refuse workers of several hosts whose ledger is a file.

    Raises:
        UserError: it is one.
    """
    if not workers.shares_database:
        raise UserError(
            f"workers of {where} need a ledger that all hosts reach: --ledger postgresql://user@host/database, and "
            "--runs in a folder that they share"
        )


def find_problem(code: int | None, where: str) -> list[str]:
    """Say that a worker was not done when it ended, and where its output is; empty for one that was, or runs."""
    done = code in (None, 0, 2)  # 2: some of its trials failed, which their records say
    return [] if done else [f"a worker ended with exit code {code}; {where}"]
