"""The two ways to keep a mean loss agree with each other and with arithmetic."""

from functools import partial

import pytest
import torch

from ablate.train.audit import audit_step
from ablate.train.running_loss import OnDeviceLoss, SyncingLoss, make_running_loss

CPU = torch.device("cpu")


def test_weighted_mean_by_hand():
    for policy in ("syncing", "on-device"):
        mean = make_running_loss(policy, CPU)
        mean.update(torch.tensor(1.0), 1)
        mean.update(torch.tensor(3.0), 3)
        assert mean.compute() == pytest.approx(2.5)  # (1*1 + 3*3) / 4; dropping the weights would give 2.0
        mean.reset()
        mean.update(torch.tensor(7.0), 2)
        assert mean.compute() == pytest.approx(7.0)


def test_both_agree_with_torchmetrics_on_random_losses():
    generator = torch.Generator().manual_seed(0)
    syncing, on_device = SyncingLoss(CPU), OnDeviceLoss(CPU)
    for weight in range(1, 50):
        loss = torch.rand((), generator=generator)
        syncing.update(loss, weight)
        on_device.update(loss, weight)
    assert on_device.compute() == pytest.approx(syncing.compute(), rel=1e-6)
    assert syncing.validated() == pytest.approx(syncing.compute(), rel=1e-6)


def test_only_the_syncing_way_reads_the_device():
    loss = torch.tensor(1.0)
    counts = {}
    for policy in ("syncing", "on-device"):
        update = partial(make_running_loss(policy, CPU).update, loss, 2)
        counts[policy] = sum(audit_step(update).values())
    assert counts == {"syncing": 3, "on-device": 0}  # one .item(), two NaN checks of torchmetrics
