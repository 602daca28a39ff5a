"""A trial's request, its device and the locks held for it -> everything needed to start its process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.core.request import TrialRequest
from ablate.core.study import Study
from ablate.run.ledger.backend import Lease
from ablate.run.ledger.lock_owner import LockOwner
from ablate.run.process.environment import child_environment

REQUEST_NAME = "request.json"

OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Everything needed to start the process of one trial.

    Attributes:
        command: The program; `trial REQUEST.json` is added.
        request: What it is asked to do, without the progress descriptor.
        environment: Its whole environment.
        keep: Descriptors of the lease and the device lock, which the child inherits.
        on_start: Called with the child's pid.
        on_event: Called with each progress line.
        parent_death: Whether the child must die with this process (see `ablate.run.process.parent_death`).
        is_lost: Whether the leases are lost, so that the child must end at once.
    """

    command: Sequence[str]
    request: TrialRequest
    environment: Mapping[str, str]
    keep: tuple[int, ...]
    on_start: Callable[[int], None]
    on_event: OnEvent
    parent_death: bool = False
    is_lost: Callable[[], bool] = lambda: False


def make_launch(
    study: Study,
    request: TrialRequest,
    *,
    command: Sequence[str],
    compile_cache: Path,
    visible_gpu: str,
    owner: LockOwner,
    locks: Sequence[Lease],
    on_event: OnEvent,
    parent_death: bool = False,
    is_lost: Callable[[], bool] = lambda: False,
) -> Launch:
    """Put together how a trial is started.

    Args:
        study: Its study.
        request: What it is asked to do.
        command: The program.
        compile_cache: Folder of its compile cache.
        visible_gpu: Value of `CUDA_VISIBLE_DEVICES`.
        owner: This process; what it writes into the locks once the trial runs.
        locks: Held for the trial, whose process inherits them.
        on_event, parent_death, is_lost: As in `Launch`.
    """
    path = Path(request.record_folder) / REQUEST_NAME

    def describe(pid: int) -> None:
        training = owner.training(request.trial.key, pid, timeout_s=study.trial_timeout_s, request=path)
        for lock in locks:
            lock.describe(training.to_json())

    return Launch(
        command=command,
        request=request,
        environment=child_environment(
            os.environ,
            compile_cache=compile_cache,
            recipe_environment=request.recipe.environment,
            num_threads=study.num_threads,
            visible_gpu=visible_gpu,
        ),
        keep=tuple(number for lock in locks for number in lock.descriptors),
        on_start=describe,
        on_event=on_event,
        parent_death=parent_death,
        is_lost=is_lost,
    )
