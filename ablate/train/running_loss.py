"""Losses and batch sizes -> the weighted mean loss of an epoch, kept the syncing way or on the device."""

from __future__ import annotations

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


class ValidatedLoss:
    """Another running loss with a torchmetrics mean beside it, which checks its input for NaN in every step.

    Its check cannot be switched off: `nan_strategy="disable"` drops the weights, so the way without syncs is to do
    without it.
    """

    def __init__(self, inner: RunningLoss, device: torch.device) -> None:
        from torchmetrics import MeanMetric

        self._inner, self._metric = inner, MeanMetric().to(device)

    def update(self, loss: Tensor, weight: int) -> None:
        self._inner.update(loss, weight)
        self._metric.update(loss.detach(), weight)

    def compute(self) -> float:
        return self._inner.compute()

    def validated(self) -> float:
        """The same mean from torchmetrics (float32)."""
        return float(self._metric.compute())

    def reset(self) -> None:
        self._inner.reset()
        self._metric.reset()


def make_running_loss(recipe: Recipe, device: torch.device) -> RunningLoss:
    """Return the accumulator of a recipe's `metric_policy` and `mean_metric`."""
    loss: RunningLoss = ReadingLoss() if recipe.metric_policy == "syncing" else OnDeviceLoss(device)
    return ValidatedLoss(loss, device) if recipe.mean_metric == "validating" else loss
