"""Options -> `Workload`: a ResNet that names the pattern of an image, cross-entropy, top-1 accuracy.

The images are made anew for every batch: a window of one long stretch of noise, plus a coarse pattern of GRID x GRID
colored fields, one per class. Bytes are added to bytes, so that a batch costs little beside a training step, and an
image is the same wherever it is made.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

from ablate.core.record import Metric
from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Batch, Forward, Predictions, WorkloadContext, measured
from ablate.workloads.vision.resnet import ResNet

GRID = 4
AMPLITUDE = 63  # noise lies in 64..191, so that noise and pattern stay in 0..255
WINDOWS = 1 << 20  # places where an image's noise may begin
PATTERNS, TRAINING, VALIDATION, NOISE, ORDER, PERMUTED = range(6)  # one stream of random numbers for each
RANKED = 5  # classes named for an image, the most likely first
VALIDATION_BATCH = 64


class Images:
    """A finite set of labeled images.

    Args:
        num_images: Size of the set.
        image: Height and width in pixels.
        classes: Number of classes.
        signal: Strength of the patterns, 0 to 1.
        seed: Seed of everything random.
        split: `TRAINING` or `VALIDATION`: other labels and noise, the same patterns.
        label_seed: Permutes the labels, the images stay.
    """

    def __init__(
        self,
        num_images: int,
        *,
        image: int,
        classes: int,
        signal: float,
        seed: int,
        split: int,
        label_seed: int | None = None,
    ) -> None:
        self.image = image
        self._field = -(-image // GRID)  # pixels of a field; what sticks out is cut off
        patterns = np.random.default_rng([PATTERNS, seed]).uniform(-1, 1, (classes, 3, GRID, GRID))
        # bytes wrap around: adding 256 - 3 is taking 3 away
        self._patterns = torch.from_numpy(np.round(AMPLITUDE * signal * patterns).astype(np.int8).view(np.uint8))
        draws = np.random.default_rng([split, seed])
        shown = draws.integers(classes, size=num_images)
        self._shown = torch.from_numpy(shown)
        self._begins = draws.integers(WINDOWS, size=num_images)
        size = 3 * (GRID * self._field) ** 2
        noise = np.random.default_rng([NOISE, seed]).integers(64, 192, size=WINDOWS + size, dtype=np.uint8)
        self._noise = torch.from_numpy(noise)
        self._size = size
        if label_seed is not None:
            shown = np.random.default_rng([PERMUTED, label_seed]).permutation(shown)
        self.labels = torch.from_numpy(shown)  # (num_images,) int64
        self.digest = f"{zlib.crc32(self._patterns.numpy().tobytes() + shown.tobytes() + self._begins.tobytes()):08x}"

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, numbers: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images (B, 3, image, image) uint8 and labels (B,) int64 of some numbers, shape (B,)."""
        windows = [self._noise[begin : begin + self._size] for begin in self._begins[numbers]]
        fields = torch.stack(windows).view(-1, 3, GRID, self._field, GRID, self._field)
        chosen = torch.from_numpy(numbers)
        fields += self._patterns[self._shown[chosen]][:, :, :, None, :, None]
        side = GRID * self._field
        pixels = fields.view(-1, 3, side, side)[:, :, : self.image, : self.image].contiguous()
        return pixels, self.labels[chosen]


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """The batches of one training, drawn from a set of images with replacement; `self[i]` is always the same."""

    def __init__(self, images: Images, num_steps: int, batch_size: int, seed: int) -> None:
        self._images = images
        self._numbers = np.random.default_rng([ORDER, seed]).integers(len(images), size=(num_steps, batch_size))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self._images.batch(self._numbers[index])


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
        return measured(self._info, right.mean(), len(right))


def to_floats(images: Tensor) -> Tensor:
    """Bytes (B, 3, H, W) -> numbers of about mean 0 and spread 1, in the layout that they have."""
    return (images.float() - 127.5) / 64.0
