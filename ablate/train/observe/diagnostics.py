"""A trained session -> the part of its evidence that must not be collected while time is taken: syncs and stages.

Both passes train a few steps more, on batches that the training has seen and with the learning rate of its first step,
so nothing compiles any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from ablate.core.evidence import Evidence
from ablate.core.study import Factor
from ablate.plugins.registry import find_module
from ablate.train.observe.sync_audit import audit_device, audit_reads, count_lines
from ablate.train.running_loss import make_running_loss
from ablate.train.session import Session
from ablate.workloads.contract import Forward, pin

PROFILED_STEPS = 3
MARK = "ablate."


def add_untimed(evidence: Evidence, session: Session, factors: Sequence[Factor]) -> Evidence:
    """Add the optimizations' own counters, would-be syncs of a training step and the seconds of its stages."""
    evidence = add_counters(evidence, session, factors)
    return add_syncs(replace(evidence, stages=profile_stages(session)), session)


def add_counters(evidence: Evidence, session: Session, factors: Sequence[Factor]) -> Evidence:
    """Add what the optimizations of a study count themselves, in every cell, on or off."""
    found = dict(evidence.counters)
    for factor in factors:
        if factor.info.counters:
            found |= find_module("optimizations", factor.name, factor.path).count(session)
    return replace(evidence, counters=found)


def add_syncs(evidence: Evidence, session: Session) -> Evidence:
    """Audit one training step as the cell runs it and, where it is compiled, the same step with nothing compiled.

    The batch is on its device already, except on a GPU, where the copies are part of what is audited.
    """
    recipe = session.recipe
    session.stepper.rewind_rate()
    batch = session.parts.move(session.dataset[0])
    forward = session.module.forward_function
    running, host = make_running_loss(recipe, session.device), _host_tensors(session)
    eager = audit_reads(_make_step(session, session.workload.model, running, batch, update=False))
    reads = audit_reads(_make_step(session, forward, running, batch, update=False))
    reads += audit_reads(session.stepper.step, host)
    counters = {**evidence.counters, "syncs_per_step": len(reads)}
    sources, plain = count_lines(reads, eager), count_lines(eager)
    if session.device.type == "cuda":
        sources = audit_device(_copied(session, forward, running))
        counters["syncs_per_step"] = sum(sources.values())
    if recipe.execution == "eager":
        return replace(evidence, counters=counters, sync_sources=sources)
    counters["eager_syncs_per_step"] = len(eager)
    return replace(evidence, counters=counters, sync_sources=sources, eager_sync_sources=plain)


def profile_stages(session: Session) -> dict[str, float]:
    """Profile a few training steps; returns seconds per step by stage.

    On a GPU a stage's seconds are those of its kernels, except for the loader, which the host works on.
    """
    session.stepper.rewind_rate()
    on_gpu = session.device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    num_steps = min(PROFILED_STEPS, session.module.num_steps)
    running = make_running_loss(session.recipe, session.device)
    hooks = _mark_modules(session.workload.model) if session.recipe.execution == "eager" else []
    try:
        with profile(activities=activities) as profiler:
            for index in range(num_steps):
                _profiled_step(session, running, index)
            if on_gpu:
                torch.cuda.synchronize(session.device)
    finally:
        for hook in hooks:
            hook.remove()
    seconds: dict[str, float] = {}
    for event in profiler.key_averages():
        if event.key.startswith(MARK):
            name = event.key.removeprefix(MARK)
            total_us = event.device_time_total if on_gpu and name != "loader" else event.cpu_time_total
            seconds[name] = max(seconds.get(name, 0.0), total_us / 1e6 / num_steps)
    return _forward_rest(seconds)


def _profiled_step(session: Session, running: Any, index: int) -> None:
    with record_function(f"{MARK}loader"):
        batch = session.dataset[index]
    with record_function(f"{MARK}copy"):
        batch = session.parts.move(batch, non_blocking=session.recipe.copy_policy == "non-blocking")
    session.stepper.optimizer.zero_grad(set_to_none=True)
    with record_function(f"{MARK}forward"):
        loss = session.parts.loss(session.module.forward_function, batch)
    with record_function(f"{MARK}backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    with record_function(f"{MARK}step"):
        session.stepper.step()
    with record_function(f"{MARK}metrics"):
        running.update(loss, session.workload.num_samples(batch))


def _mark_modules(model: torch.nn.Module) -> list[Any]:
    """Mark the submodules that the model names in `stages` for the profiler; returns the hooks to remove."""
    hooks: list[Any] = []
    for name, stage in getattr(model, "stages", {}).items():
        module = model.get_submodule(name)
        running: list[Any] = []

        def enter(module: Any, inputs: Any, stage: str = stage, running: list[Any] = running) -> None:
            running.append(record_function(f"{MARK}{stage}"))
            running[-1].__enter__()

        def leave(module: Any, inputs: Any, outputs: Any, running: list[Any] = running) -> None:
            running.pop().__exit__(None, None, None)

        hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    return hooks


def _forward_rest(seconds: dict[str, float]) -> dict[str, float]:
    """Where the forward is divided, keep what its stages leave as `rest of forward`."""
    known = {"loader", "copy", "forward", "backward", "step", "metrics"}
    inside = sum(value for name, value in seconds.items() if name not in known)
    if not inside:
        return seconds
    rest = max(seconds["forward"] - inside, 0.0)
    return {**{name: value for name, value in seconds.items() if name != "forward"}, "rest of forward": rest}


def _make_step(
    session: Session, forward: Forward, running: Any, batch: Any, *, update: bool = True
) -> Callable[[], None]:
    def step() -> None:
        session.stepper.optimizer.zero_grad(set_to_none=True)
        loss = session.parts.loss(forward, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if update:
            session.stepper.step()
        running.update(loss, session.workload.num_samples(batch))

    return step


def _copied(session: Session, forward: Forward, running: Any) -> Callable[[], None]:
    """One step from a batch on the host, page-locked as the loader would give it."""
    batch = session.dataset[0]
    if session.stream.pinned:
        batch = pin(batch)

    def step() -> None:
        moved = session.parts.move(batch, non_blocking=session.recipe.copy_policy == "non-blocking")
        _make_step(session, forward, running, moved)()

    return step


def _host_tensors(session: Session) -> list[torch.Tensor]:
    """Tensors of the optimizer that are on the host whatever the device: its counters, and a CPU learning rate."""
    optimizer = session.stepper.optimizer
    found = [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.dim() == 0
    ]
    rates = [group["lr"] for group in optimizer.param_groups] if session.recipe.lr_kind == "tensor" else []
    return [tensor for tensor in found + rates if tensor.device.type == "cpu"]
