"""An entity task (one label per seed) -> `Workload` with the reference GNN and a loss per seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.core.record import Metric
from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Forward, Predictions, Workload, WorkloadContext, split_rows
from ablate.workloads.relational.data.labels import check_visible, entity_seeds, load_table, load_task, permute_labels
from ablate.workloads.relational.data.stream import Parts, draw_batches, entity_parts
from ablate.workloads.relational.gnn import TemporalGNN, make_inputs


class EntityWorkload(Workload):
    """Trains one number per seed.

    Args:
        context: Graph, training, recipe.
        info: What the workload declares.
        loss: (predictions (S,), targets (S,)) -> scalar.
        clamp: Turns raw validation predictions (numpy) into what the evaluator takes; the identity by default.
    """

    def __init__(
        self,
        context: WorkloadContext,
        info: WorkloadInfo,
        loss: Callable[[Tensor, Tensor], Tensor],
        clamp: Callable[[np.ndarray], np.ndarray] = lambda p: p,
    ) -> None:
        super().__init__(context)
        self.info, self._loss, self._clamp = info, loss, clamp
        self._task = load_task(context.graph, info.task)
        self._train = entity_seeds(self._task, load_table(self._task, "train"))
        check_visible(context.graph, self._train, f"training labels of {info.name}")
        if context.label_seed is not None:
            self._train = permute_labels(self._train, context.label_seed)
        self.num_train_rows = len(self._train)
        self.model = TemporalGNN(context.graph, context.training, context.recipe, out_channels=1)
        assert self._train.targets is not None
        self.train_median = float(self._train.targets.median())

    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        rows = draw_batches(len(self._train), self.context.training.batch_size, num_batches, generator)
        return entity_parts(self._train, rows)

    def loss(self, forward: Forward, batch: Any) -> Tensor:
        predictions = forward(*make_inputs(batch, self.context.recipe))
        return self._loss(predictions.view(-1), batch[batch.seed_type].y)

    def predict(self, to_device: Callable[[Any], Any]) -> Predictions:
        table = load_table(self._task, "val", self.context.training.validation_rows)
        seeds = entity_seeds(self._task, table)
        rows = split_rows(len(seeds))

        def parts(index: int) -> Any:
            return entity_parts(seeds, rows)(index)  # type: ignore[arg-type]

        self.model.eval()
        with torch.no_grad():
            outputs = [
                self.model(*make_inputs(batch, self.context.recipe)).view(-1).cpu()
                for batch in self.evaluation_batches(parts, len(rows), to_device)
            ]
        self.model.train()
        return Predictions(values=self._clamp(torch.cat(outputs).double().numpy()), table=table)

    def score(self, predictions: Predictions) -> Metric:
        scores = self._task.evaluate(predictions.values, predictions.table)
        return Metric(
            name=self.info.metric,
            value=float(scores[self.info.metric]),
            unit=self.info.metric_unit,
            higher_is_better=self.info.higher_is_better,
            num_rows=len(predictions.table.df),
        )
