"""A trial's request, its device and locks, the caller's environment -> everything needed to start its process."""

import os
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ablate
from ablate.core.request import TrialRequest
from ablate.core.study import Study
from ablate.run.ledger.backend import Lease
from ablate.run.ledger.lock_owner import LockOwner

DROPPED_PREFIXES = ("TORCH", "PYTORCH", "TRITON", "INDUCTOR")
DROPPED_NAMES = frozenset({"CUDA_LAUNCH_BLOCKING", "PYTHONSTARTUP", "PYTHONPROFILEIMPORTTIME"})
SECRET_NAMES = frozenset({"ABLATE_LEDGER", "PGPASSWORD"})  # a trial has nothing to do with the ledger


def child_environment(
    caller: Mapping[str, str],
    *,
    compile_cache: Path,
    recipe_environment: Mapping[str, str],
    num_threads: int | None,
    visible_gpu: str,
) -> dict[str, str]:
    """Environment of one trial.

    Args:
        caller: Environment of the parent.
        compile_cache: Folder of the compile cache.
        recipe_environment: Variables that the recipe sets; they win over everything else.
        num_threads: CPU threads of the study; None keeps what the caller has.
        visible_gpu: Value of `CUDA_VISIBLE_DEVICES`.
    """
    kept = {name: value for name, value in caller.items() if not _dropped(name)}
    kept |= {
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(compile_cache),
        "TRITON_CACHE_DIR": str(compile_cache / "triton"),
        "PYTHONHASHSEED": "0",
        "CUDA_VISIBLE_DEVICES": visible_gpu,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if num_threads is not None:
        kept |= {"OMP_NUM_THREADS": str(num_threads), "MKL_NUM_THREADS": str(num_threads)}
    return _importable(kept) | dict(recipe_environment)


def _dropped(name: str) -> bool:
    return name.startswith(DROPPED_PREFIXES) or name in DROPPED_NAMES or name in SECRET_NAMES


def _importable(environment: dict[str, str]) -> dict[str, str]:
    """Let the child import the same ablate as the parent when it is not an installed one (its cwd is elsewhere)."""
    root = Path(ablate.__file__).resolve().parents[1]
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    if root in installed:
        return environment
    path = os.pathsep.join(part for part in (str(root), environment.get("PYTHONPATH", "")) if part)
    return environment | {"PYTHONPATH": path}


REQUEST_NAME = "request.json"

OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the process of one trial is started.

    Attributes:
        study: Its study.
        request: What it is asked to do, without the progress descriptor.
        command: The program; `trial REQUEST.json` is added.
        compile_cache: Folder of its compile cache.
        visible_gpu: Value of `CUDA_VISIBLE_DEVICES`.
        on_event: Called with each progress line.
        owner: This process, as it stands in the locks.
        locks: Held for the trial, whose process inherits them: leases and device.
        parent_death: Whether the child must die with this process (see `ablate.run.process.parent_death`).
        is_lost: Whether the leases are lost, so that the child must end at once.
    """

    study: Study
    request: TrialRequest
    command: Sequence[str]
    compile_cache: Path
    visible_gpu: str
    on_event: OnEvent
    owner: LockOwner
    locks: Sequence[Lease] = ()
    parent_death: bool = False
    is_lost: Callable[[], bool] = lambda: False

    @property
    def environment(self) -> dict[str, str]:
        """Its whole environment."""
        return child_environment(
            os.environ,
            compile_cache=self.compile_cache,
            recipe_environment=self.request.recipe.environment,
            num_threads=self.study.num_threads,
            visible_gpu=self.visible_gpu,
        )

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors of the locks."""
        return tuple(number for lock in self.locks for number in lock.descriptors)

    def describe(self, child: int) -> None:
        """Write into the locks that this process now trains the trial."""
        path = Path(self.request.record_folder) / REQUEST_NAME
        timeout_s = self.study.trial_timeout_s
        owner = self.owner.training(self.request.trial.key, child, timeout_s=timeout_s, request=path)
        for lock in self.locks:
            lock.describe(owner.to_json())
