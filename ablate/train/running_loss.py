"""Losses and batch sizes -> the weighted mean loss of an epoch, kept the syncing way or on the device."""

from typing import Protocol

import torch
from torch import Tensor

from ablate.core.recipe import Recipe


class RunningLoss(Protocol):
    """Accumulates the mean loss that a training script prints after each epoch."""

    def update(self, loss: Tensor, weight: int) -> None:
        """Add the mean loss (scalar) of `weight` seeds."""

    def compute(self) -> float:
        """Return the weighted mean since the last `reset`."""

    def reset(self) -> None:
        """Start anew."""


class ReadingLoss:
    """As users write it: `loss.item()` in every step."""

    def __init__(self) -> None:
        self.reset()

    def update(self, loss: Tensor, weight: int) -> None:
        self._total += loss.detach().item() * weight
        self._count += weight

    def compute(self) -> float:
        return self._total / self._count if self._count else float("nan")

    def reset(self) -> None:
        self._total, self._count = 0.0, 0


class OnDeviceLoss:
    """Adds on the device and reads back only in `compute`, once an epoch."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.reset()

    def update(self, loss: Tensor, weight: int) -> None:
        self._total += loss.detach() * weight
        self._count += weight

    def compute(self) -> float:
        return float(self._total) / self._count if self._count else float("nan")

    def reset(self) -> None:
        self._total, self._count = torch.zeros((), dtype=torch.float64, device=self._device), 0


class ValidatingLoss:
    """The mean metric of torchmetrics, which checks its input for NaN in every step (float32).

    Its check cannot be switched off: `nan_strategy="disable"` drops the weights.
    """

    def __init__(self, device: torch.device) -> None:
        from torchmetrics import MeanMetric

        self._metric = MeanMetric().to(device)

    def update(self, loss: Tensor, weight: int) -> None:
        self._metric.update(loss.detach(), weight)

    def compute(self) -> float:
        return float(self._metric.compute())

    def reset(self) -> None:
        self._metric.reset()


class LossAndMetric:
    """The loss that a script prints and the mean metric that it logs: two accumulators in every cell.

    Both are kept whatever the recipe, so that cells differ in how they accumulate, not in how much.
    """

    def __init__(self, loss: RunningLoss, metric: RunningLoss) -> None:
        self._loss, self._metric = loss, metric

    def update(self, loss: Tensor, weight: int) -> None:
        self._loss.update(loss, weight)
        self._metric.update(loss, weight)

    def compute(self) -> float:
        return self._loss.compute()

    def reset(self) -> None:
        self._loss.reset()
        self._metric.reset()


def make_running_loss(recipe: Recipe, device: torch.device) -> LossAndMetric:
    """Return the accumulators of a recipe's `metric_policy` and `mean_metric`."""
    loss: RunningLoss = ReadingLoss() if recipe.metric_policy == "syncing" else OnDeviceLoss(device)
    metric: RunningLoss = ValidatingLoss(device) if recipe.mean_metric == "validating" else OnDeviceLoss(device)
    return LossAndMetric(loss, metric)
