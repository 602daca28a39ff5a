"""Two sessions, `encode_unique` off and on, stepping in turn on the same batches -> ratio of step times, equality.

    python -m benchmarks.encode_unique            a few minutes on two cores; exits 1 when a line fails

user-churn on the `small` look-alike, 128 channels, 256 seeds, eager, dropout 0. The steps alternate, so that whatever
else the machine does hits both; the number is the median of the ratios of neighboring steps.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ablate.core.recipe import Recipe
from ablate.core.study import Study
from ablate.optimizations.beyond import encode_unique
from ablate.plugins.registry import apply_of, make_catalog
from ablate.spec.reader import read_study
from ablate.train.session import Session, open_session

CPU = torch.device("cpu")
SPEC = Path(__file__).parent / "encode_unique.yaml"
LEAST_RATIO, LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1.3, 1e-6, 1e-5


@dataclass(frozen=True, kw_only=True)
class Step:
    """Seconds of one step and of its loader, and what it computed."""

    seconds: float
    loader_s: float
    loss: float


def main() -> int:
    """Print the lines; 0 when every one passes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=25, help="pairs of steps to time")
    arguments = parser.parse_args()
    study = read_study(SPEC, catalog=make_catalog(), device="cpu")
    study = replace(study, timing=replace(study.timing, steps_per_epoch=arguments.pairs + 2))
    off, on = (make_session(study, level) for level in ("every", "distinct"))
    checks = [compare_first_step(off, on), compare_times(off, on, arguments.pairs)]
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__}, look-alike {study.workloads[0].options['scale']}, eager"
    )
    return 0 if all(checks) else 1


def make_session(study: Study, level: str) -> Session:
    """One training with the level of `encode_unique`, everything else equal."""
    recipe = apply_of(encode_unique)(Recipe(metric_policy="on-device", mean_metric="on-device"), level)
    return open_session(study, study.workloads[0].name, recipe, seed=0, device=CPU)


def compare_first_step(off: Session, on: Session) -> bool:
    """The loss of the first step and every gradient agree."""
    losses, gradients = [], []
    for session in (off, on):
        loss = session.workload.loss(session.workload.model, session.dataset[0])
        loss.backward()
        losses.append(loss.item())
        named = session.workload.model.named_parameters()
        gradients.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        session.stepper.optimizer.zero_grad(set_to_none=True)
    # pytorch-frame's LinearEncoder gives the weight of a column with missing values a NaN gradient (0 times NaN)
    missing = [{name for name, grad in found.items() if not grad.isfinite().all()} for found in gradients]
    loss_error = abs(losses[0] - losses[1]) / abs(losses[0])
    worst = max(
        float((gradients[0][name] - gradients[1][name]).norm() / gradients[0][name].norm().clamp_min(1e-30))
        for name in gradients[0].keys() - missing[0]
        if gradients[0][name].norm() > 0
    )
    rows = [encode_unique.count(session)["encoded_rows"] for session in (off, on)]
    print(f"rows of the first batch: {rows[0]:,.0f} nodes, {rows[1]:,.0f} distinct")
    passed = loss_error <= LOSS_TOLERANCE and worst <= GRADIENT_TOLERANCE
    passed = passed and gradients[0].keys() == gradients[1].keys() and missing[0] == missing[1]
    print(
        f"first step: loss {losses[0]:.8f} off, {losses[1]:.8f} on, relative difference {loss_error:.1e}; largest "
        f"relative difference of a gradient (norm) {worst:.1e}: {'as it must be' if passed else 'NOT as it must be'}"
    )
    for name in sorted(missing[0]):
        print(f"not compared, not finite with it off either: {name}")
    return passed


def compare_times(off: Session, on: Session, pairs: int) -> bool:
    """Median ratio of a step off to the step on beside it; the order inside a pair alternates."""
    steps: dict[int, list[Step]] = {0: [], 1: []}
    sessions = (off, on)
    for index in range(pairs + 2):
        for which in (0, 1) if index % 2 == 0 else (1, 0):
            steps[which].append(take_step(sessions[which], index))
    ratios = [a.seconds / b.seconds for a, b in zip(steps[0][2:], steps[1][2:], strict=True)]
    whole = [
        (a.seconds + a.loader_s) / (b.seconds + b.loader_s) for a, b in zip(steps[0][2:], steps[1][2:], strict=True)
    ]
    ratio, low, high = median(ratios), sorted(ratios)[pairs // 10], sorted(ratios)[-1 - pairs // 10]
    passed = ratio >= LEAST_RATIO
    print(
        f"step: median {_median(steps[0], 'seconds'):.0f} ms off, {_median(steps[1], 'seconds'):.0f} ms on; ratio "
        f"{ratio:.2f} (most pairs {low:.2f} to {high:.2f}, {pairs} pairs, at least {LEAST_RATIO}): "
        f"{'as it must be' if passed else 'NOT as it must be'}"
    )
    print(
        f"loader: median {_median(steps[0], 'loader_s'):.0f} ms off, {_median(steps[1], 'loader_s'):.0f} ms on; step "
        f"and loader together: ratio {median(whole):.2f}"
    )
    return passed


def _median(steps: list[Step], name: str) -> float:
    return 1000 * median(getattr(step, name) for step in steps[2:])


def take_step(session: Session, index: int) -> Step:
    """One whole training step."""
    batch, loader_s = _timed(lambda: session.dataset[index])
    loss, seconds = _timed(lambda: _train(session, batch))
    return Step(seconds=seconds, loader_s=loader_s, loss=float(loss))


def _train(session: Session, batch: Any) -> torch.Tensor:
    session.stepper.optimizer.zero_grad(set_to_none=True)
    loss = session.workload.loss(session.workload.model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    session.stepper.step()
    session.stepper.advance_schedule()
    return loss.detach()


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
