"""A trained session -> seconds per step by stage, from a profiled pass over batches that the training has not seen.

On a GPU the kernels of a stage are started by whatever thread it runs in, those of the backward pass by autograd's. So
the device is waited for at both ends of a stage, and what it did in between is the stage's.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from ablate.core.evidence import Evidence
from ablate.train.clock import synchronize
from ablate.train.observe.diagnostics import MakeBatch, measure_unseen
from ablate.train.running_loss import make_running_loss
from ablate.train.session import Session

PROFILED_STEPS = 3
MARK = "ablate."
LOADER = "loader"
WHOLE_STAGES = {LOADER, "copy", "forward", "backward", "step", "metrics"}


class Stage:
    """Marks a stage for the profiler while it is entered, with nothing of it left on the device at its ends."""

    def __init__(self, name: str, device: torch.device) -> None:
        self._mark, self._device = record_function(f"{MARK}{name}"), device

    def __enter__(self) -> None:
        synchronize(self._device)
        self._mark.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        synchronize(self._device)
        self._mark.__exit__(*error)


def add_stages(evidence: Evidence, session: Session) -> Evidence:
    """Add the seconds of a step by stage."""
    return replace(evidence, stages=profile_stages(session))


def profile_stages(session: Session) -> dict[str, float]:
    """Profile a few training steps; returns seconds per step by stage, empty where no step could be measured.

    On a GPU a stage's seconds are those that the device worked, except for the loader, which the host works on.
    """
    session.stepper.rewind_rate()
    hooks = _mark_modules(session) if session.recipe.execution == "eager" else []
    try:
        found = [measure_unseen(session, partial(_profile_step, session)) for _ in range(PROFILED_STEPS)]
    finally:
        for hook in hooks:
            hook.remove()
    steps = [seconds for seconds in found if seconds is not None]
    names = dict.fromkeys(name for seconds in steps for name in seconds)
    return _forward_rest({name: fmean(seconds.get(name, 0.0) for seconds in steps) for name in names})


def sum_stages(events: Iterable[Any], *, on_gpu: bool) -> dict[str, float]:
    """Seconds of each marked stage.

    Args:
        events: What `torch.profiler.profile.events` returns; of each its `name`, `time_range` (in microseconds),
            `device_type` and `is_user_annotation` are read.
        on_gpu: Count what a GPU did between the ends of a stage, instead of the time from one end to the other.
    """
    events = list(events)
    work = [e for e in events if e.device_type != DeviceType.CPU and not e.is_user_annotation]
    seconds: dict[str, float] = {}
    for mark in events:
        if mark.device_type != DeviceType.CPU or not mark.name.startswith(MARK):
            continue
        name, span = mark.name.removeprefix(MARK), mark.time_range
        inside = [e.time_range for e in work if span.start <= e.time_range.start < span.end]
        used_us = sum(r.elapsed_us() for r in inside) if on_gpu and name != LOADER else span.elapsed_us()
        seconds[name] = seconds.get(name, 0.0) + used_us / 1e6
    return seconds


def _profile_step(session: Session, make_batch: MakeBatch) -> dict[str, float]:
    on_gpu, running = session.device.type == "cuda", make_running_loss(session.recipe, session.device)
    with profile(activities=[ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])) as profiler:
        _run_step(session, running, make_batch)
    return sum_stages(profiler.events() or (), on_gpu=on_gpu)


def _run_step(session: Session, running: Any, make_batch: MakeBatch) -> None:
    stage = partial(Stage, device=session.device)
    with stage(LOADER):
        batch = make_batch()
    with stage("copy"):
        batch = session.parts.move(batch, non_blocking=session.recipe.copy_policy == "non-blocking")
    session.stepper.optimizer.zero_grad(set_to_none=True)
    with stage("forward"):
        loss = session.parts.loss(session.module.forward_function, batch)
    with stage("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    with stage("step"):
        session.stepper.step()
    with stage("metrics"):
        running.update(loss, session.workload.num_samples(batch))


def _mark_modules(session: Session) -> list[Any]:
    """Mark the submodules that the model names in `stages` for the profiler; returns the hooks to remove."""
    model, hooks = session.workload.model, []
    for name, stage in getattr(model, "stages", {}).items():
        module = model.get_submodule(name)
        running: list[Stage] = []

        def enter(module: Any, inputs: Any, stage: str = stage, running: list[Stage] = running) -> None:
            running.append(Stage(stage, session.device))
            running[-1].__enter__()

        def leave(module: Any, inputs: Any, outputs: Any, running: list[Stage] = running) -> None:
            running.pop().__exit__(None, None, None)

        hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    return hooks


def _forward_rest(seconds: dict[str, float]) -> dict[str, float]:
    """Where the forward is divided, keep what its stages leave as `rest of forward`."""
    inside = sum(value for name, value in seconds.items() if name not in WHOLE_STAGES)
    if not inside:
        return seconds
    rest = max(seconds["forward"] - inside, 0.0)
    return {**{name: value for name, value in seconds.items() if name != "forward"}, "rest of forward": rest}
