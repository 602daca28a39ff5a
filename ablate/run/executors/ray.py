"""Workers of a cluster -> tasks of Ray."""

import os
from typing import Any

from ablate.core.errors import UserError
from ablate.run.executors.base import (
    GRACE_S,
    ExecutorInfo,
    WorkerPool,
    Workers,
    find_problem,
    require_database,
    run_worker,
)


class RayPool(WorkerPool):
    """Tasks of Ray: of the cluster that `RAY_ADDRESS` names, else of one started here."""

    def __init__(self, workers: Workers) -> None:
        import ray

        if workers.options:
            name = next(iter(workers.options))
            raise UserError(f"--executor-option {name}: Ray takes none; set up its cluster instead")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = ray
        ray.init(include_dashboard=False, log_to_driver=False, ignore_reinit_error=True, configure_logging=False)
        if len(ray.nodes()) > 1:  # type: ignore[no-untyped-call]
            require_database(workers, "a Ray cluster of several hosts")
        needs: dict[str, Any] = {"num_cpus": workers.num_cpus, "num_gpus": int(workers.device == "cuda")}
        task = ray.remote(max_retries=0, **needs)(run_worker)
        self._tasks = [task.remote(tuple(workers.command)) for _ in range(workers.number)]
        self._codes: dict[int, int | str] = {}

    def running(self) -> int:
        self._look()
        return len(self._tasks) - len(self._codes)

    def problems(self) -> list[str]:
        self._look()
        return [
            problem
            for code in self._codes.values()
            for problem in (
                [f"a task was lost ({code})"] if isinstance(code, str) else find_problem(code, "see the logs of Ray")
            )
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


INFO = ExecutorInfo(name="ray", start=RayPool, package="ray", extra="ray")
