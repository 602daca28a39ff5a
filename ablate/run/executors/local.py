"""Workers of this host -> processes."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ablate.run.executors.base import GRACE_S, ExecutorInfo, WorkerPool, Workers, find_problem


class LocalPool(WorkerPool):
    """Processes of this host."""

    def __init__(self, workers: Workers) -> None:
        self._outputs = [workers.folder / f"worker-{number + 1}.txt" for number in range(workers.number)]
        self._processes = [_open(workers.command, output) for output in self._outputs]

    def running(self) -> int:
        return sum(process.poll() is None for process in self._processes)

    def problems(self) -> list[str]:
        ended = ((process.poll(), output) for process, output in zip(self._processes, self._outputs, strict=True))
        return [problem for code, output in ended for problem in find_problem(code, f"see {output}")]

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(GRACE_S)


def _open(command: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    with output.open("ab") as stream:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )


INFO = ExecutorInfo(name="local", start=LocalPool)
