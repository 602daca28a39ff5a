"""A trial's request, its device and the locks held for it -> everything needed to start its process."""

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
