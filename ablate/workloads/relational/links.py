"""A recommendation task (a list of articles per seed) -> `Workload`: two towers, shared negatives, BPR, MAP@k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Batch, Forward, Predictions, WorkloadContext
from ablate.workloads.relational.base import RelationalWorkload, split_rows
from ablate.workloads.relational.data.labels import link_seeds
from ablate.workloads.relational.data.links import draw_link_batches, link_parts
from ablate.workloads.relational.data.stream import Part, Parts


class LinkWorkload(RelationalWorkload):
    """Trains a vector per source and destination; their dot product ranks the destinations.

    Args:
        context: Options, training, recipe.
        info: What the workload declares.
        task: Name of the task in the dataset.
    """

    def __init__(self, context: WorkloadContext, info: WorkloadInfo, task: str) -> None:
        super().__init__(context, info, task, link_seeds)
        self._destination = self.task.dst_entity_table
        self._num_destinations = int(self.graph.data[self._destination].num_nodes)
        self.embedded = (self._destination,)
        self.model = self.make_model(out_channels=self.options.channels)

    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        batches = draw_link_batches(self.seeds, self._num_destinations, self.batch_size, num_batches, generator)
        return link_parts(self.seeds, self._destination, batches)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        source, positive, negative = (forward(*self.inputs(part)) for part in batch)
        positive_score = (source * positive).sum(dim=1, keepdim=True)  # (S, 1)
        negative_score = source @ negative.t()  # (S, S): negatives are shared by the batch
        return torch.nn.functional.softplus(negative_score - positive_score).mean()

    def predict(self, to_device: Callable[[Batch], Batch]) -> Predictions:
        """Rank the destinations of every validation row."""
        table, seeds = self.validation()
        self.model.eval()
        with torch.no_grad():
            all_destinations = torch.arange(self._num_destinations)
            moment = seeds.times[:1].expand(self._num_destinations)
            destinations = self._embed(self._destination, all_destinations, moment, to_device)
            sources = self._embed(seeds.node_type, seeds.nodes, seeds.times, to_device)
            top = [
                (chunk @ destinations.t()).topk(self.task.eval_k, dim=1).indices.cpu()
                for chunk in torch.split(sources, 4096)
            ]
        self.model.train()
        return Predictions(values=torch.cat(top).numpy(), table=table)

    def _embed(self, node_type: str, nodes: Tensor, times: Tensor, to_device: Callable[[Batch], Batch]) -> Tensor:
        """Vectors of nodes at their times, shape (nodes, channels)."""
        rows = split_rows(len(nodes))

        def parts(index: int) -> tuple[Part, ...]:
            chosen = torch.from_numpy(rows[index])
            return (Part(node_type=node_type, nodes=nodes[chosen], times=times[chosen]),)

        return torch.cat(list(self.outputs(parts, len(rows), to_device)))
