"""Options, training and recipe -> `Workload`: what the trainer needs to know about a model, its batches and its loss.

A workload is a file with `INFO = WorkloadInfo(...)` and `build(context) -> Workload`, importing torch only inside
functions, so that a spec can be checked without it. It may also have `check(options)`, which raises a `UserError` for
what cannot be trained here, and `prepare(options, say)`, which makes its data ready before any trial; `say` takes a
sentence of progress.

A batch is whatever the workload likes: tensors in tuples, lists, dicts or registered pytrees, or objects that have
torch's methods `to` and `pin_memory`. Where that is not enough, a workload brings its own `to_device`, `checksum` or
`sizes`, with the arguments of the functions of that name here. Its attribute `environment` may hold facts of this
machine (name -> value) that its numbers depend on; they go into the record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_map
from torch.utils.data import Dataset

from ablate.core.recipe import Recipe
from ablate.core.record import Metric
from ablate.core.study import Training
from ablate.core.workload import WorkloadInfo

Forward = Callable[..., Tensor]
Batch = Any


@dataclass(frozen=True, kw_only=True)
class WorkloadContext:
    """What a workload is built from; it reads nothing else.

    Attributes:
        options: An instance of the workload's own `INFO.options`.
        training: Batch size; the optimizer is the trainer's business.
        recipe: How the cell trains; of it a workload reads `model` and `memory_format`.
    """

    options: Any
    training: Training
    recipe: Recipe


class Workload(Protocol):
    """Model, batches and loss. Initial weights come from torch's global random numbers, seeded before `build`.

    Attributes:
        model: The inner module, uncompiled, on the CPU; the trainer moves and compiles it. Its optional `stages` names
            submodules and the stage that their time counts for.
    """

    model: torch.nn.Module

    def batches(self, num_steps: int, seed: int) -> Dataset[Batch]:
        """The batches of a training on the CPU: `dataset[i]` is the same batch in every cell and process.

        Draw from a generator of `seed`, never from global random numbers. A dataset that `Replays` can be replayed.
        """
        ...

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Training loss (scalar) of a batch on the model's device, calling the inner module by `forward`."""
        ...

    def num_samples(self, batch: Batch) -> int:
        """Samples of a batch: the weight of its loss in an epoch's mean."""
        ...


@runtime_checkable
class Predicts(Protocol):
    """A workload that can be judged after training."""

    def predict(self, to_device: Callable[[Batch], Batch]) -> Predictions:
        """Predict the validation split with the uncompiled module, which is left in training mode."""
        ...

    def score(self, predictions: Predictions) -> Metric:
        """Score predictions."""
        ...


@runtime_checkable
class Replays(Protocol):
    """A dataset that can keep its batches in memory: `replay` among the workload's `supports`."""

    @property
    def replay_gib(self) -> float | None:
        """Memory of what is kept, None while nothing is."""
        ...

    def keep(self) -> None:
        """Make every batch now and keep what takes time to make."""
        ...


@runtime_checkable
class HasEdgeCases(Protocol):
    """A workload with batches that a compiler may compile again for."""

    def edge_cases(self, dataset: Dataset[Batch]) -> Iterator[tuple[str, Batch, bool]]:
        """Yield (name, batch, whether it must come first)."""
        ...


@runtime_checkable
class HasData(Protocol):
    """A workload that trains on stored data: its name, and a digest of what is in it."""

    data_name: str
    data_digest: str


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What the uncompiled module says about the validation split.

    Attributes:
        values: One number per row, float64 (rows,), or the ids ranked for it, best first, int64 (rows, k).
        table: What the workload needs to score them.
    """

    values: np.ndarray
    table: Any = None

    def columns(self) -> dict[str, np.ndarray]:
        """`row`, `rank` and `value` of every prediction, shape (rows * k,) each."""
        values = self.values.reshape(len(self.values), -1)
        rows, ranks = np.indices(values.shape)
        return {"row": rows.ravel(), "rank": ranks.ravel(), "value": values.ravel().astype(np.float64)}


def measured(info: WorkloadInfo, value: float, num_rows: int) -> Metric:
    """The metric that a workload declares, with its value over some rows."""
    return Metric(
        name=info.metric,
        value=float(value),
        unit=info.metric_unit,
        higher_is_better=info.higher_is_better,
        num_rows=num_rows,
    )


def to_device(workload: Workload, batch: Batch, device: torch.device, *, non_blocking: bool = False) -> Batch:
    """The batch on the device."""
    if own := getattr(workload, "to_device", None):
        return own(batch, device, non_blocking=non_blocking)
    return tree_map(lambda leaf: leaf.to(device, non_blocking=non_blocking) if hasattr(leaf, "to") else leaf, batch)


def pin(batch: Batch) -> Batch:
    """The batch in page-locked memory."""
    return tree_map(lambda leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf, batch)


def checksum(workload: Workload, batch: Batch) -> int:
    """CRC-32 of what is in a batch on the CPU: equal batches have equal ones."""
    if own := getattr(workload, "checksum", None):
        return int(own(batch))
    value = 0
    for tensor in tree_leaves(batch):
        if isinstance(tensor, Tensor):
            value = zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, value)
    return value


def sizes(workload: Workload, batch: Batch) -> dict[str, int]:
    """Sizes that a compiler may specialize on, by name; the first dimension of each tensor by its place."""
    if own := getattr(workload, "sizes", None):
        return dict(own(batch))
    leaves, _ = tree_flatten_with_path(batch)
    tensors = ((path, leaf) for path, leaf in leaves if isinstance(leaf, Tensor) and leaf.dim())
    return {"".join(map(str, path)) or "batch": tensor.size(0) for path, tensor in tensors}
