"""A workload's batches -> an iterable of epochs that measures what the trainer waits for and hashes what it trained on.

Every batch comes with its checksum, taken where it was made (in a worker when there are any); their hash proves that
two trials saw the same data.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from ablate.core.study import LoaderOptions
from ablate.workloads.contract import Batch, pin


def hash_checksums(checksums: Sequence[int]) -> str:
    """Hash (16 hex digits) of the checksums of batches, in order."""
    return hashlib.blake2b(np.asarray(checksums, dtype=np.uint32).tobytes(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class _Checked:
    batch: Batch
    checksum: int

    def pin_memory(self) -> _Checked:
        """What torch's loader calls; its own way makes lists of tuples."""
        return _Checked(pin(self.batch), self.checksum)


class _CheckedBatches(Dataset[_Checked]):
    def __init__(self, dataset: Dataset[Batch], checksum: Callable[[Batch], int]) -> None:
        self._dataset, self._checksum = dataset, checksum

    def __len__(self) -> int:
        return len(cast(Any, self._dataset))

    def __getitem__(self, index: int) -> _Checked:
        batch = self._dataset[index]
        return _Checked(batch, self._checksum(batch))


class BatchStream:
    """The training batches of a trial as an iterable of epochs.

    Iterating yields the next `steps_per_epoch` batches; the underlying loader lives through the whole trial.

    Args:
        dataset: Batch number -> batch.
        checksum: Batch -> CRC-32 of what is in it.
        pin: Whether batches come in page-locked memory.

    Attributes:
        wait_s: Seconds waited for each batch so far.
        pinned: As `pin`.
    """

    def __init__(
        self,
        dataset: Dataset[Batch],
        checksum: Callable[[Batch], int],
        steps_per_epoch: int,
        options: LoaderOptions,
        *,
        pin: bool,
    ) -> None:
        self._steps_per_epoch = steps_per_epoch
        self._loader = DataLoader(
            _CheckedBatches(dataset, checksum),
            batch_size=None,
            shuffle=False,
            num_workers=options.num_workers,
            pin_memory=pin,
            generator=torch.Generator().manual_seed(0),
        )
        self._batches: Iterator[_Checked] | None = None
        self._checksums: list[int] = []
        self.wait_s: list[float] = []
        self.pinned = pin

    def __len__(self) -> int:
        return self._steps_per_epoch

    def __iter__(self) -> Iterator[Batch]:
        if self._batches is None:
            self._batches = iter(self._loader)
        for _ in range(self._steps_per_epoch):
            before = time.perf_counter()
            checked = next(self._batches)
            self.wait_s.append(time.perf_counter() - before)
            self._checksums.append(checked.checksum)
            yield checked.batch

    @property
    def hash(self) -> str:
        """Hash (16 hex digits) of everything trained on so far, in order."""
        return hash_checksums(self._checksums)


class UnseenBatches:
    """Batches that a training does not see, for what is looked at after it; each is given once.

    A batch that comes a second time is no longer what training meets: its CUDA graphs are recorded and replayed.

    Args:
        make: Makes the data set of these batches, when the first one is asked for.
        num_batches: How many it has.
    """

    def __init__(self, make: Callable[[], Dataset[Batch]], num_batches: int) -> None:
        self._make, self._numbers = make, iter(range(num_batches))
        self._dataset: Dataset[Batch] | None = None

    def take(self) -> Callable[[], Batch] | None:
        """What makes the next batch; None when all were taken."""
        number = next(self._numbers, None)
        if number is None:
            return None
        if self._dataset is None:
            self._dataset = self._make()
        return partial(self._dataset.__getitem__, number)
