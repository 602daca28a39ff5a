"""Workers of a cluster -> jobs of SLURM by submitit, or, where there is none, of submitit's local executor."""

import re
from typing import Any

from ablate.core.errors import UserError
from ablate.run.executors.base import ExecutorInfo, WorkerPool, Workers, find_problem, require_database, run_worker

LONGEST_MIN = 24 * 60


class SlurmPool(WorkerPool):
    """Jobs of submitit."""

    def __init__(self, workers: Workers) -> None:
        import submitit

        options: dict[str, Any] = {name: _number_if_whole(value) for name, value in workers.options.items()}
        self._jobs: list[Any] = []
        try:
            executor = submitit.AutoExecutor(folder=workers.folder, cluster=options.pop("cluster", None))
            if executor.cluster == "slurm":
                require_database(workers, "SLURM")
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
            else:
                found += find_problem(job.result(), f"see {job.paths.stderr}")
        return found

    def stop(self) -> None:
        for job in self._jobs:
            if not job.done():
                job.cancel()


def _number_if_whole(text: str) -> int | str:
    """The value of an option as submitit wants it; `007` stays text, it may be the name of an account."""
    return int(text) if re.fullmatch("0|[1-9][0-9]*", text) else text


INFO = ExecutorInfo(name="submitit", start=SlurmPool, package="submitit", extra="slurm")
