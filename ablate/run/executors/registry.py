"""Name of an executor -> its `INFO`, from the files of this folder; workers started with it."""

import importlib.util

from ablate.core.errors import UserError, did_you_mean
from ablate.plugins.registry import load_folder
from ablate.run.executors.base import ExecutorInfo, WorkerPool, Workers


def find_executor(name: str) -> ExecutorInfo:
    """Find an executor.

    Raises:
        UserError: there is none of that name, or its package is not installed.
    """
    known: dict[str, ExecutorInfo] = {name: module.INFO for name, module in load_folder(__package__).items()}
    if name not in known:
        raise UserError(f"--executor {name} is unknown{did_you_mean(name, known)}")
    info = known[name]
    if info.package is not None and importlib.util.find_spec(info.package) is None:
        raise UserError(f"--executor {name} needs its package: pip install 'ablate-study[{info.extra}]'")
    return info


def start_workers(name: str, workers: Workers) -> WorkerPool:
    """Start workers with an executor.

    Raises:
        UserError: as `find_executor` and `ExecutorInfo.start`.
    """
    workers.folder.mkdir(parents=True, exist_ok=True)
    return find_executor(name).start(workers)
