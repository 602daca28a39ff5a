"""An entity task (one label per seed) -> `Workload` with the reference GNN and a loss per seed."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Batch, Forward, Predictions, WorkloadContext
from ablate.workloads.relational.base import RelationalWorkload, split_rows
from ablate.workloads.relational.data.labels import entity_seeds
from ablate.workloads.relational.data.stream import Parts, draw_batches, entity_parts


class EntityWorkload(RelationalWorkload):
    """Trains one number per seed.

    Args:
        context, info, task: As `RelationalWorkload`.
        loss: (predictions (S,), targets (S,)) -> scalar.
        clamp: Turns raw validation predictions (numpy) into what the evaluator takes; the identity by default.
    """

    def __init__(
        self,
        context: WorkloadContext,
        info: WorkloadInfo,
        task: str,
        loss: Callable[[Tensor, Tensor], Tensor],
        clamp: Callable[[np.ndarray], np.ndarray] = lambda p: p,
    ) -> None:
        super().__init__(context, info, task, entity_seeds)
        self._loss, self._clamp = loss, clamp
        self.model = self.make_model(out_channels=1)

    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        rows = draw_batches(len(self.seeds), self.batch_size, num_batches, generator)
        return entity_parts(self.seeds, rows)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        predictions = forward(*self.inputs(batch))
        return self._loss(predictions.view(-1), batch[batch.seed_type].y)

    def predict(self, to_device: Callable[[Batch], Batch]) -> Predictions:
        """Predict one number per row of the validation split."""
        table, seeds = self.validation()
        rows = split_rows(len(seeds))
        self.model.eval()
        with torch.no_grad():
            outputs = [
                output.view(-1).cpu() for output in self.outputs(entity_parts(seeds, rows), len(rows), to_device)
            ]
        self.model.train()
        return Predictions(values=self._clamp(torch.cat(outputs).double().numpy()), table=table)
