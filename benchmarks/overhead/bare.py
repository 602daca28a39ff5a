"""`python -m benchmarks.overhead.bare REQUEST.json OUT.json`: the request's cell trained by a loop as one writes it.

Model, batches and loss are the cell's own (`ablate.workloads`); everything around them is plain PyTorch:
nothing of `ablate.train`, no Lightning. OUT.json gets the seconds of every epoch and the loss of every step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric

from ablate.core.recipe import Recipe
from ablate.core.request import TrialRequest
from ablate.core.serialize import from_dict
from ablate.core.study import Study
from ablate.plugins.registry import find_module
from ablate.records.store import read_json, read_study
from ablate.workloads.contract import WorkloadContext


def main(request_json: Path, out_json: Path) -> int:
    """Train and write what it took."""
    request = read_json(request_json, TrialRequest)
    study = read_study(Path(request.study_json))
    assert study.num_threads is not None and study.training.schedule == "linear"
    torch.set_num_threads(study.num_threads)
    epoch_s, losses = train(study, request.recipe, request.trial.seed)
    out_json.write_text(json.dumps({"epoch_s": epoch_s, "losses": losses}), encoding="utf-8")
    return 0


def train(study: Study, recipe: Recipe, seed: int) -> tuple[list[float], list[float]]:
    """Train all epochs; returns seconds per epoch and the loss per step."""
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    choice = study.workloads[0]
    module = find_module("workloads", choice.name, choice.path)
    options = from_dict(module.INFO.options, choice.options)
    torch.manual_seed(seed)
    workload = module.build(WorkloadContext(options=options, training=study.training, recipe=recipe))
    batches = iter(DataLoader(workload.batches(num_steps, seed), batch_size=None))
    lr = study.training.lr if study.training.lr is not None else choice.info.lr
    rate = torch.tensor(lr) if recipe.lr_kind == "tensor" else lr
    optimizer = torch.optim.Adam(workload.model.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - min(step / num_steps, 1.0))
    forward, step = compiled(workload.model, optimizer, recipe)
    losses: list[torch.Tensor] = []
    epoch_s: list[float] = []
    torch.manual_seed(seed + 1)
    for _ in range(study.timing.epochs):
        began = time.perf_counter()
        total, count, metric = torch.zeros((), dtype=torch.float64), 0, MeanMetric()
        for _ in range(study.timing.steps_per_epoch):
            batch = next(batches)
            num_seeds = workload.num_samples(batch)
            optimizer.zero_grad(set_to_none=True)
            loss = workload.loss(forward, batch)
            loss.backward()
            step()
            scheduler.step()
            if recipe.metric_policy == "syncing":  # as users write it; else on the device
                total += loss.item() * num_seeds
                metric.update(loss.detach(), num_seeds)
            else:
                total += loss.detach() * num_seeds
            count += num_seeds
            losses.append(loss.detach())
        epoch_s.append(time.perf_counter() - began)
    return epoch_s, [float(loss) for loss in losses]


def compiled(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe
) -> tuple[Callable[..., torch.Tensor], Callable[[], object]]:
    """Forward and optimizer step as the cell runs them."""
    if recipe.forward_compile is None or recipe.step_compile is None:
        return model, optimizer.step
    options = recipe.forward_compile
    forward = torch.compile(model, dynamic=options.dynamic, mode=options.mode, backend=options.backend)
    return forward, torch.compile(lambda: optimizer.step(), backend=recipe.step_compile.backend)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
