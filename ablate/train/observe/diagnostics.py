"""A trained session -> the counters that must not be collected while time is taken: those of optimizations, and syncs.

What trains a step here does it on batches that the training has not seen, with the learning rate of its first step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from ablate.core.evidence import Evidence
from ablate.core.study import Factor
from ablate.plugins.registry import find_module
from ablate.train.observe.compile_watch import count_compilations
from ablate.train.observe.sync_audit import audit_device, audit_reads, count_lines
from ablate.train.running_loss import make_running_loss
from ablate.train.session import Session
from ablate.workloads.contract import Batch, Forward, pin

Lines = Mapping[str, int]  # `file:line` -> number of syncs
MakeBatch = Callable[[], Batch]
T = TypeVar("T")


def measure_unseen(session: Session, measure: Callable[[MakeBatch], T]) -> T | None:
    """Measure on the next batch that the training has not seen; where something compiles meanwhile, on the one after.

    Returns:
        What `measure` returned; None when there is no such batch left: it is not measured.
    """
    while (make_batch := session.unseen.take()) is not None:
        before = count_compilations()
        found = measure(make_batch)
        if count_compilations() == before:
            return found
    return None


def add_counters(evidence: Evidence, session: Session, factors: Sequence[Factor]) -> Evidence:
    """Add what the optimizations of a study count themselves, in every cell, on or off."""
    found = dict(evidence.counters)
    for factor in factors:
        if factor.info.counters:
            found |= find_module("optimizations", factor.name, factor.path).count(session)
    return replace(evidence, counters=found)


def add_syncs(evidence: Evidence, session: Session) -> Evidence:
    """Audit one training step as the cell runs it and, where it is compiled, the same step with nothing compiled.

    On a GPU both are waits of the host that torch reports, copies of the batch included; elsewhere both are operators
    that would make it wait, of a batch that is on its device already. Where no batch is left, nothing is added.
    """
    session.stepper.rewind_rate()
    if session.device.type == "cuda":
        found = measure_unseen(session, partial(_audit_waits, session))
    else:
        make_batch = session.unseen.take()
        found = None if make_batch is None else _audit_operators(session, make_batch)
    if found is None:
        return evidence
    sources, eager = found
    counters = {**evidence.counters, "syncs_per_step": sum(sources.values())}
    if session.recipe.execution == "eager":
        return replace(evidence, counters=counters, sync_sources=sources)
    counters["eager_syncs_per_step"] = sum(eager.values())
    return replace(evidence, counters=counters, sync_sources=sources, eager_sync_sources=eager)


def _audit_waits(session: Session, make_batch: MakeBatch) -> tuple[Lines, Lines]:
    """Waits of the host for a GPU in a step as the cell runs it, and with nothing compiled, by source line."""
    batch = pin(make_batch()) if session.stream.pinned else make_batch()
    running = make_running_loss(session.recipe, session.device)

    def step(forward: Forward, update: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            moved = session.parts.move(batch, non_blocking=session.recipe.copy_policy == "non-blocking")
            _run_step(session, forward, running, moved)
            update()

        return run

    eager = audit_device(step(session.workload.model, session.stepper.optimizer.step))
    return audit_device(step(session.module.forward_function, session.stepper.step)), eager


def _audit_operators(session: Session, make_batch: MakeBatch) -> tuple[Lines, Lines]:
    """Operators that would make the host wait, likewise. What must still compile does so before they are looked for."""
    batch, running = session.parts.move(make_batch()), make_running_loss(session.recipe, session.device)
    forward = session.module.forward_function
    _run_step(session, forward, running, batch)
    eager = audit_reads(lambda: _run_step(session, session.workload.model, running, batch))
    reads = audit_reads(lambda: _run_step(session, forward, running, batch))
    reads += audit_reads(session.stepper.step, _host_tensors(session))
    return count_lines(reads, eager), count_lines(eager)


def _run_step(session: Session, forward: Forward, running: Any, batch: Batch) -> None:
    """Forward, backward and bookkeeping of a step; the weights stay."""
    session.stepper.optimizer.zero_grad(set_to_none=True)
    loss = session.parts.loss(forward, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    running.update(loss, session.workload.num_samples(batch))


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
