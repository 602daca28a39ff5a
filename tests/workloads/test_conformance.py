"""What every registered workload must do; a new one inherits these tests by being in the folder."""

import math

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.plugins.catalog import make_catalog
from ablate.train.session import build_workload
from ablate.workloads.relational.data.stream import stream_generator
from real_parts import tiny_graph, tiny_study

NAMES = sorted(make_catalog().workloads)


def build(name: str, recipe: Recipe | None = None, seed: int = 0):
    return build_workload(tiny_study(name), name, tiny_graph(), recipe or Recipe(), seed=seed)


def first_loss(workload) -> torch.Tensor:
    workload.model.eval()  # no dropout: the numbers must agree exactly
    batch = workload.train_dataset(1, stream_generator(0), replay=False)[0]
    return workload.loss(workload.model, batch)


def test_the_three_tasks_of_the_guide_are_registered():
    assert {"hm/user-churn", "hm/item-sales", "hm/user-item-purchase"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_loss_is_a_finite_scalar_with_a_gradient_for_every_used_weight(name):
    workload = build(name)
    loss = first_loss(workload)
    assert loss.shape == () and math.isfinite(loss.item())
    loss.backward()
    with_gradient = [n for n, p in workload.model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    assert len(with_gradient) > 0.5 * len(list(workload.model.named_parameters()))
    assert all(p.grad.isfinite().all() for p in workload.model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", NAMES)
def test_seed_alone_decides_the_initial_weights(name):
    one, same, other = build(name, seed=1), build(name, seed=1), build(name, seed=2)
    weights = [dict(w.model.named_parameters()) for w in (one, same, other)]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert any(not torch.equal(weights[0][key], weights[2][key]) for key in weights[0])


@pytest.mark.parametrize("name", NAMES)
def test_key_style_changes_neither_names_nor_numbers(name):
    losses = {}
    names = {}
    for style in ("tuple", "string", "tuple-breaking"):
        workload = build(name, Recipe(key_style=style))
        names[style] = list(workload.model.state_dict())
        losses[style] = first_loss(workload).item()
    assert names["tuple"] == names["string"] == names["tuple-breaking"]
    assert losses["tuple"] == losses["string"] == losses["tuple-breaking"]


@pytest.mark.parametrize("name", NAMES)
def test_validation_gives_the_declared_metric_on_every_row(name):
    workload = build(name)
    metric = workload.evaluate(lambda batch: batch)
    info = make_catalog().workloads[name]
    assert (metric.name, metric.unit, metric.higher_is_better) == (info.metric, info.metric_unit, info.higher_is_better)
    assert math.isfinite(metric.value) and metric.num_rows > 50
    assert workload.model.training
