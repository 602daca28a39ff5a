"""A recommendation task (a list of articles per seed) -> `Workload`: two towers, shared negatives, BPR, MAP@k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.core.record import Metric
from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Forward, Predictions, Workload, WorkloadContext, split_rows
from ablate.workloads.relational.data.labels import check_visible, link_seeds, load_table, load_task, permute_labels
from ablate.workloads.relational.data.links import draw_link_batches, link_parts
from ablate.workloads.relational.data.stream import Part, Parts
from ablate.workloads.relational.gnn import TemporalGNN, make_inputs


class LinkWorkload(Workload):
    """Trains a vector per source and destination; their dot product ranks the destinations."""

    def __init__(self, context: WorkloadContext, info: WorkloadInfo) -> None:
        super().__init__(context)
        self.info = info
        self._task = load_task(context.graph, info.task)
        self._train = link_seeds(self._task, load_table(self._task, "train"))
        check_visible(context.graph, self._train, f"training labels of {info.name}")
        if context.label_seed is not None:
            self._train = permute_labels(self._train, context.label_seed)
        self.num_train_rows = len(self._train)
        self._destination = self._task.dst_entity_table
        self._num_destinations = int(context.graph.data[self._destination].num_nodes)
        self._embedded = (self._destination,)
        self.model = TemporalGNN(
            context.graph,
            context.training,
            context.recipe,
            out_channels=context.training.channels,
            embedded=self._embedded,
        )

    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        batches = draw_link_batches(
            self._train, self._num_destinations, self.context.training.batch_size, num_batches, generator
        )
        return link_parts(self._train, self._destination, batches)

    def loss(self, forward: Forward, batch: Any) -> Tensor:
        source, positive, negative = (forward(*self._inputs(part)) for part in batch)
        positive_score = (source * positive).sum(dim=1, keepdim=True)  # (S, 1)
        negative_score = source @ negative.t()  # (S, S): negatives are shared by the batch
        return torch.nn.functional.softplus(negative_score - positive_score).mean()

    def predict(self, to_device: Callable[[Any], Any]) -> Predictions:
        """Rank the destinations of every validation row."""
        table = load_table(self._task, "val", self.context.training.validation_rows)
        seeds = link_seeds(self._task, table)
        self.model.eval()
        with torch.no_grad():
            all_destinations = torch.arange(self._num_destinations)
            moment = seeds.times[:1].expand(self._num_destinations)
            destinations = self._embed(self._destination, all_destinations, moment, to_device)
            sources = self._embed(seeds.node_type, seeds.nodes, seeds.times, to_device)
            top = [
                (chunk @ destinations.t()).topk(self._task.eval_k, dim=1).indices.cpu()
                for chunk in torch.split(sources, 4096)
            ]
        self.model.train()
        return Predictions(values=torch.cat(top).numpy(), table=table)

    def score(self, predictions: Predictions) -> Metric:
        scores = self._task.evaluate(predictions.values, predictions.table)
        return Metric(
            name=self.info.metric,
            value=float(scores[self.info.metric]),
            unit=self.info.metric_unit,
            higher_is_better=self.info.higher_is_better,
            num_rows=len(predictions.table.df),
        )

    def _embed(self, node_type: str, nodes: Tensor, times: Tensor, to_device: Callable[[Any], Any]) -> Tensor:
        """Vectors of nodes at their times, shape (nodes, channels)."""
        rows = split_rows(len(nodes))

        def parts(index: int) -> tuple[Part, ...]:
            chosen = torch.from_numpy(rows[index])
            return (Part(node_type=node_type, nodes=nodes[chosen], times=times[chosen]),)

        return torch.cat(
            [self.model(*self._inputs(batch)) for batch in self.evaluation_batches(parts, len(rows), to_device)]
        )

    def _inputs(self, batch: Any) -> tuple[Any, ...]:
        return make_inputs(batch, self.context.recipe, self._embedded)
