"""Switching syncs off changes no number: the mean loss and every task's validation metric on equal predictions."""

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.optimizations.guide import sync_free
from ablate.plugins.registry import apply_of
from ablate.train.session import build_workload, open_session
from real_parts import WORKLOADS, metric_of, tiny_study

RECIPES = [apply_of(sync_free)(Recipe(), level) for level in ("syncing", "sync-free")]


@pytest.mark.parametrize("name", WORKLOADS)  # AUROC, MAE (over the spread of the labels), MAP@12
def test_the_validation_metric_of_equal_weights_is_equal(name):
    values = [metric_of(build_workload(tiny_study(name), name, recipe, seed=0)) for recipe in RECIPES]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_training_is_equal_with_and_without_syncs(name):
    means, weights = [], []
    for recipe in RECIPES:
        study = tiny_study(name, epochs=2, steps=3)
        session = open_session(study, name, recipe, seed=0, device=torch.device("cpu"))
        session.train()
        means.append(session.clock.mean_losses)
        weights.append([weight.detach().nan_to_num(7.0) for weight in session.workload.model.parameters()])
    assert len(means[0]) == 2 and means[0] == pytest.approx(means[1], rel=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
