"""Options -> `Workload`: a ResNet that names the pattern of an image, cross-entropy, top-1 accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

from ablate.core.record import Metric
from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Batch, Forward, Predictions, WorkloadContext
from ablate.workloads.vision.images import TRAINING, VALIDATION, Batches, Images
from ablate.workloads.vision.resnet import ResNet

RANKED = 5  # classes named for an image, the most likely first
VALIDATION_BATCH = 64


class Classification:
    """Trains one class per image."""

    data_name = "synthetic images"

    def __init__(self, context: WorkloadContext, info: WorkloadInfo) -> None:
        options = context.options
        self._info, self._batch_size = info, context.training.batch_size
        self.model: torch.nn.Module = ResNet(options.arch, options.classes)
        common: dict[str, Any] = {
            "image": options.image, "classes": options.classes, "signal": options.signal, "seed": options.data_seed
        }  # fmt: skip
        self.training_images = Images(options.train_images, split=TRAINING, label_seed=options.label_seed, **common)
        self.validation_images = Images(options.validation_images, split=VALIDATION, **common)
        self.data_digest = self.training_images.digest + self.validation_images.digest
        self._num_ranked = min(RANKED, options.classes)

    def batches(self, num_steps: int, seed: int) -> Dataset[Batch]:
        return Batches(self.training_images, num_steps, self._batch_size, seed)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        images, labels = batch
        return cross_entropy(forward(to_floats(images)), labels)

    def num_samples(self, batch: Batch) -> int:
        return len(batch[1])

    def predict(self, to_device: Callable[[Batch], Batch]) -> Predictions:
        """Rank the classes of every validation image."""
        numbers = np.arange(len(self.validation_images))
        self.model.eval()
        with torch.no_grad():
            ranked = [
                self.model(to_floats(images)).topk(self._num_ranked, dim=1).indices.cpu()
                for part in np.array_split(numbers, -(-len(numbers) // VALIDATION_BATCH))
                for images, _ in (to_device(self.validation_images.batch(part)),)
            ]
        self.model.train()
        return Predictions(values=torch.cat(ranked).numpy(), table=self.validation_images.labels.numpy())

    def score(self, predictions: Predictions) -> Metric:
        """Share of the images whose first class is their own."""
        right = predictions.values[:, 0] == predictions.table
        return Metric(
            name=self._info.metric,
            value=float(right.mean()),
            unit=self._info.metric_unit,
            higher_is_better=self._info.higher_is_better,
            num_rows=len(right),
        )


def to_floats(images: Tensor) -> Tensor:
    """Bytes (B, 3, H, W) -> numbers of about mean 0 and spread 1, in the layout that they have."""
    return (images.float() - 127.5) / 64.0
