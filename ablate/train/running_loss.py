"""Losses and batch sizes -> the weighted mean loss of an epoch, kept the syncing way or on the device."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class RunningLoss(Protocol):
    """Accumulates the mean loss that a training script prints after each epoch."""

    def update(self, loss: Tensor, weight: int) -> None:
        """Add the mean loss (scalar) of `weight` seeds."""

    def compute(self) -> float:
        """Return the weighted mean since the last `reset`."""

    def reset(self) -> None:
        """Start anew."""


class SyncingLoss:
    """As users write it: `loss.item()` every step, and a torchmetrics mean that checks its input for NaN."""

    def __init__(self, device: torch.device) -> None:
        from torchmetrics import MeanMetric

        self._metric = MeanMetric().to(device)
        self.reset()

    def update(self, loss: Tensor, weight: int) -> None:
        self._total += loss.detach().item() * weight
        self._count += weight
        self._metric.update(loss.detach(), weight)

    def compute(self) -> float:
        return self._total / self._count if self._count else float("nan")

    def validated(self) -> float:
        """The same mean from torchmetrics (float32)."""
        return float(self._metric.compute())

    def reset(self) -> None:
        self._total, self._count = 0.0, 0
        self._metric.reset()


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


def make_running_loss(policy: str, device: torch.device) -> RunningLoss:
    """Return the accumulator of a recipe's metric policy: `syncing` or `on-device`."""
    return SyncingLoss(device) if policy == "syncing" else OnDeviceLoss(device)
