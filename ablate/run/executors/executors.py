"""A worker's command and a number -> that many workers, started here, by SLURM or by Ray; the ledger does the rest.

An executor hands out workers, never trials: who trains what is the ledger's business, so that an engine that loses or
restarts a worker loses nothing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ablate.core.errors import UserError

ExecutorName = Literal["local", "submitit", "ray"]
LONGEST_MIN = 24 * 60
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


class Crew(Protocol):
    """Workers that were started."""

    def running(self) -> int:
        """How many have not ended; those that wait for a place in a queue count."""

    def problems(self) -> list[str]:
        """One sentence for each that ended otherwise than by being done."""

    def wait(self) -> None:
        """Wait until all have ended by themselves."""

    def stop(self) -> None:
        """End those that run, so that they can go on later; does nothing when all have ended."""


def start_workers(name: ExecutorName, workers: Workers) -> Crew:
    """Start workers with an executor.

    Raises:
        UserError: its package is not installed, an option is wrong, or it spans hosts and the ledger is a file.
    """
    workers.folder.mkdir(parents=True, exist_ok=True)
    starters: dict[str, Callable[[Workers], Crew]] = {"local": _Local, "submitit": _Submitit, "ray": _Ray}
    return starters[name](workers)


def run_worker(command: Sequence[str]) -> int:
    """Run one worker inside of a job and return its exit code; told to stop, it stops its trial first."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


class _Crew(ABC):
    """What the workers of every executor have in common."""

    @abstractmethod
    def running(self) -> int:
        """Number of workers that have not ended."""

    def wait(self) -> None:
        while self.running():
            time.sleep(LOOK_S)


class _Local(_Crew):
    """Processes of this host."""

    def __init__(self, workers: Workers) -> None:
        self._outputs = [workers.folder / f"worker-{number + 1}.txt" for number in range(workers.number)]
        self._processes = [_open(workers.command, output) for output in self._outputs]

    def running(self) -> int:
        return sum(process.poll() is None for process in self._processes)

    def problems(self) -> list[str]:
        ended = ((process.poll(), output) for process, output in zip(self._processes, self._outputs, strict=True))
        return [_problem(code, f"see {output}") for code, output in ended if _is_problem(code)]

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(GRACE_S)


class _Submitit(_Crew):
    """Jobs of SLURM, or, where there is none, of submitit's local executor."""

    def __init__(self, workers: Workers) -> None:
        try:
            import submitit
        except ImportError as error:
            raise UserError("--executor submitit needs its package: pip install 'ablate-study[slurm]'") from error
        options: dict[str, Any] = {name: _number_if_whole(value) for name, value in workers.options.items()}
        self._jobs: list[Any] = []
        try:
            executor = submitit.AutoExecutor(folder=workers.folder, cluster=options.pop("cluster", None))
            if executor.cluster == "slurm":
                _check_database(workers, "SLURM")
            settings = {
                "name": "ablate-worker",
                "timeout_min": LONGEST_MIN,
                "cpus_per_task": workers.num_cpus,
                "tasks_per_node": 1,
                **({"gpus_per_node": 1} if workers.device == "cuda" else {}),
                **options,
            }
            executor.update_parameters(**settings)
            for _ in range(workers.number):
                self._jobs.append(executor.submit(run_worker, tuple(workers.command)))
        except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
            self.stop()
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(
                f"--executor submitit cannot start workers ({said}); check each --executor-option"
            ) from error

    def running(self) -> int:
        return sum(not job.done() for job in self._jobs)

    def problems(self) -> list[str]:
        found = []
        for job in self._jobs:
            if not job.done():
                continue
            error = job.exception()
            if error is not None:
                found.append(f"job {job.job_id} was lost; see {job.paths.stderr}")
            elif _is_problem(job.result()):
                found.append(_problem(job.result(), f"see {job.paths.stderr}"))
        return found

    def stop(self) -> None:
        for job in self._jobs:
            if not job.done():
                job.cancel()


class _Ray(_Crew):
    """Tasks of Ray: of the cluster that `RAY_ADDRESS` names, else of one started here."""

    def __init__(self, workers: Workers) -> None:
        try:
            import ray
        except ImportError as error:
            raise UserError("--executor ray needs its package: pip install 'ablate-study[ray]'") from error
        if workers.options:
            name = next(iter(workers.options))
            raise UserError(f"--executor-option {name}: Ray takes none; set up its cluster instead")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = ray
        ray.init(include_dashboard=False, log_to_driver=False, ignore_reinit_error=True, configure_logging=False)
        if len(ray.nodes()) > 1:  # type: ignore[no-untyped-call]
            _check_database(workers, "a Ray cluster of several hosts")
        needs: dict[str, Any] = {"num_cpus": workers.num_cpus, "num_gpus": int(workers.device == "cuda")}
        task = ray.remote(max_retries=0, **needs)(run_worker)
        self._tasks = [task.remote(tuple(workers.command)) for _ in range(workers.number)]
        self._codes: dict[int, int | str] = {}

    def running(self) -> int:
        self._look()
        return len(self._tasks) - len(self._codes)

    def problems(self) -> list[str]:
        self._look()
        where = "see the logs of Ray"
        return [
            f"a task was lost ({code})" if isinstance(code, str) else _problem(code, where)
            for code in self._codes.values()
            if isinstance(code, str) or _is_problem(code)
        ]

    def stop(self) -> None:
        for number, task in enumerate(self._tasks):
            if number not in self._codes:
                self._ray.cancel(task)
        self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=GRACE_S)
        self._ray.shutdown()

    def _look(self) -> None:
        ready, _ = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)
        for number, task in enumerate(self._tasks):
            if task in ready and number not in self._codes:
                try:
                    self._codes[number] = self._ray.get(task)
                except self._ray.exceptions.RayError as error:
                    self._codes[number] = type(error).__name__


def _check_database(workers: Workers, where: str) -> None:
    if not workers.shares_database:
        raise UserError(
            f"workers of {where} need a ledger that all hosts reach: --ledger postgresql://user@host/database, and "
            "--runs in a folder that they share"
        )


def _number_if_whole(text: str) -> int | str:
    """The value of an option as submitit wants it; `007` stays text, it may be the name of an account."""
    return int(text) if re.fullmatch("0|[1-9][0-9]*", text) else text


def _open(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("ab") as stream:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )


def worker_command(arguments: Sequence[str]) -> list[str]:
    """Command line of `ablate worker` with this interpreter."""
    return [sys.executable, "-m", "ablate", "worker", *arguments]


def _is_problem(code: int | None) -> bool:
    return code not in (None, 0, 2)  # 2: some of its trials failed, which their records say


def _problem(code: int | None, where: str) -> str:
    return f"a worker ended with exit code {code}; {where}"
