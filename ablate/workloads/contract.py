"""Graph, training and recipe -> `Workload`: what the trainer needs to know about a model, its batches and its loss.

A workload file declares `INFO = WorkloadInfo(...)` and `build(context) -> Workload`, importing torch only inside
functions, so that a spec can be checked without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.core.recipe import Recipe
from ablate.core.record import Metric
from ablate.core.study import Training
from ablate.core.workload import WorkloadInfo
from ablate.workloads.relational.data.graph import Graph
from ablate.workloads.relational.data.sampler import make_sampler
from ablate.workloads.relational.data.stream import BatchDataset, Parts, SubgraphSampler

Forward = Callable[..., Tensor]
EVALUATION_BATCH = 512


@dataclass(frozen=True, kw_only=True)
class WorkloadContext:
    """What a workload is built from; it reads nothing else.

    Attributes:
        label_seed: Shuffles the training labels when set (leak check), None in every study.
    """

    graph: Graph
    training: Training
    recipe: Recipe
    label_seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What the uncompiled module says about the validation split.

    Attributes:
        values: One number per row, float64 (rows,), or the ids ranked for it, best first, int64 (rows, k).
        table: The label table that the rows belong to.
    """

    values: np.ndarray
    table: Any

    def columns(self) -> dict[str, np.ndarray]:
        """`row`, `rank` and `value` of every prediction, shape (rows * k,) each."""
        values = self.values.reshape(len(self.values), -1)
        rows, ranks = np.indices(values.shape)
        return {"row": rows.ravel(), "rank": ranks.ravel(), "value": values.ravel().astype(np.float64)}


class Workload(ABC):
    """Model + data + loss of one task.

    Attributes:
        info: What the workload declares about itself.
        model: The inner module, uncompiled; the trainer compiles it, validation uses it as it is.
        num_train_rows: Rows of the training label table.
    """

    info: WorkloadInfo
    model: torch.nn.Module
    num_train_rows: int

    def __init__(self, context: WorkloadContext) -> None:
        self.context = context
        sampler = make_sampler(context.graph, context.training.num_neighbors)
        self.subgraphs = SubgraphSampler(context.graph, sampler, unique=context.recipe.encode_unique)

    @abstractmethod
    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        """Draw the training batches of a trial, as parts to sample."""

    @abstractmethod
    def loss(self, forward: Forward, batch: Any) -> Tensor:
        """Return the training loss (scalar) of a batch on the model's device, calling the inner module by `forward`."""

    @abstractmethod
    def predict(self, to_device: Callable[[Any], Any]) -> Predictions:
        """Predict the validation split with the uncompiled module, which is left in training mode."""

    @abstractmethod
    def score(self, predictions: Predictions) -> Metric:
        """Score predictions with the task's own RelBench evaluator."""

    def evaluate(self, to_device: Callable[[Any], Any]) -> Metric:
        """Predict the validation split and score it."""
        return self.score(self.predict(to_device))

    def train_dataset(self, num_batches: int, generator: np.random.Generator, *, replay: bool) -> BatchDataset:
        """Batches of a trial, sampled when asked for, or kept from the start with `replay`."""
        return BatchDataset(self.subgraphs, self.train_parts(num_batches, generator), num_batches, replay=replay)

    def evaluation_batches(self, parts: Parts, num_batches: int, to_device: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield batches of fixed parts on the device."""
        dataset = BatchDataset(self.subgraphs, parts, num_batches)
        for index in range(num_batches):
            yield to_device(dataset[index])


def split_rows(num_rows: int, size: int = EVALUATION_BATCH) -> list[np.ndarray]:
    """Row numbers 0..num_rows-1 in chunks of at most `size`."""
    return [np.arange(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]
