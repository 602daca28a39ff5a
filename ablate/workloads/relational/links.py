"""A recommendation task (a list of articles per seed) -> `Workload`: two towers, shared negatives, BPR, MAP@k."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Batch, Forward, Predictions, WorkloadContext
from ablate.workloads.relational.base import RelationalWorkload, split_rows
from ablate.workloads.relational.data.labels import link_seeds
from ablate.workloads.relational.data.stream import Part, Parts


class LinkWorkload(RelationalWorkload):
    """Trains a vector per source and destination; their dot product ranks the destinations."""

    def __init__(self, context: WorkloadContext, info: WorkloadInfo, task: str) -> None:
        super().__init__(context, info, task, link_seeds)
        self._destination = self.task.dst_entity_table
        self._num_destinations = int(self.graph.data[self._destination].num_nodes)
        self.embedded = (self._destination,)
        self.model = self.make_model(out_channels=self.options.channels)

    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        """Batches of (source, bought destination, shared negatives): one seed time, one random positive a row."""
        seeds, destination = self.seeds, self._destination
        assert seeds.offsets is not None and seeds.destinations is not None
        offsets, destinations = seeds.offsets.numpy(), seeds.destinations.numpy()
        rows = draw_rows(seeds.times.numpy(), self.batch_size, num_batches, generator)
        counts = offsets[rows + 1] - offsets[rows]
        picks = offsets[rows] + (generator.random(rows.shape) * counts).astype(np.int64)
        positives = torch.from_numpy(destinations[picks])  # (num_batches, S), as the rows and the negatives
        negatives = torch.from_numpy(generator.integers(0, self._num_destinations, size=rows.shape, dtype=np.int64))

        def parts(index: int) -> tuple[Part, ...]:
            chosen = torch.from_numpy(rows[index])
            times = seeds.times[chosen]
            return (
                Part(node_type=seeds.node_type, nodes=seeds.nodes[chosen], times=times),
                Part(node_type=destination, nodes=positives[index], times=times),
                Part(node_type=destination, nodes=negatives[index], times=times),
            )

        return parts

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


def draw_rows(times: np.ndarray, batch_size: int, num_batches: int, generator: np.random.Generator) -> np.ndarray:
    """Draw label rows, int64 (num_batches, batch_size), as RelBench's script does: one seed time a batch.

    Seed times with fewer rows than a batch are skipped unless all have fewer; then the batch shrinks to the largest.
    """
    groups = [np.flatnonzero(times == moment) for moment in np.unique(times)]
    size = min(batch_size, max(len(group) for group in groups))
    batches: list[np.ndarray] = []
    while len(batches) < num_batches:
        one_pass = []
        for group in groups:
            whole = len(group) // size
            one_pass += list(generator.permutation(group)[: whole * size].reshape(whole, size))
        batches += [one_pass[i] for i in generator.permutation(len(one_pass))]
    return np.stack(batches[:num_batches])
