"""The two ways to keep a mean loss agree with each other and with arithmetic."""

from functools import partial

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.train.observe.sync_audit import audit_reads
from ablate.train.running_loss import LossAndMetric, OnDeviceLoss, ReadingLoss, ValidatingLoss, make_running_loss

CPU = torch.device("cpu")
RECIPES = [
    Recipe(metric_policy=policy, mean_metric=mean)
    for policy in ("syncing", "on-device")
    for mean in ("validating", "on-device")
]


def test_weighted_mean_by_hand():
    for recipe in RECIPES:
        mean = make_running_loss(recipe, CPU)
        mean.update(torch.tensor(1.0), 1)
        mean.update(torch.tensor(3.0), 3)
        assert mean.compute() == pytest.approx(2.5)  # (1*1 + 3*3) / 4; dropping the weights would give 2.0
        mean.reset()
        mean.update(torch.tensor(7.0), 2)
        assert mean.compute() == pytest.approx(7.0)


def test_both_agree_with_torchmetrics_on_random_losses():
    generator = torch.Generator().manual_seed(0)
    metric, on_device = ValidatingLoss(CPU), OnDeviceLoss(CPU)
    syncing = LossAndMetric(ReadingLoss(), metric)
    for weight in range(1, 50):
        loss = torch.rand((), generator=generator)
        syncing.update(loss, weight)
        on_device.update(loss, weight)
    assert on_device.compute() == pytest.approx(syncing.compute(), rel=1e-6)
    assert metric.compute() == pytest.approx(syncing.compute(), rel=1e-6)


def test_each_part_reads_the_device_as_often_as_it_says():
    loss = torch.tensor(1.0)
    counts = [len(audit_reads(partial(make_running_loss(r, CPU).update, loss, 2))) for r in RECIPES]
    assert counts == [3, 1, 2, 0]  # one .item(), two NaN checks of torchmetrics


def test_torchmetrics_without_its_check_would_drop_the_weights():
    from torchmetrics import MeanMetric

    mean = MeanMetric(nan_strategy="disable")
    mean.update(torch.tensor(1.0), 1)
    mean.update(torch.tensor(3.0), 3)
    assert mean.compute() == 2.0  # so switching the check off is not a way to do without syncs
