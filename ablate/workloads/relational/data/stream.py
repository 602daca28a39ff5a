"""Seeds and a block's seed -> the same mini-batches in the same order for every cell of a block.

The order is drawn from a generator of its own, so it does not depend on the model's random numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from torch_geometric.data import HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput

from ablate.core.units import BYTES_PER_GIB
from ablate.workloads.relational.data.graph import Graph
from ablate.workloads.relational.data.labels import Seeds

Batch = Any  # HeteroData, or a tuple of them


def stream_generator(seed: int) -> np.random.Generator:
    """Random numbers of the batch stream of a block; apart from the model's, which torch draws."""
    return np.random.default_rng([0x5EED, seed])


def draw_batches(num_rows: int, batch_size: int, num_batches: int, generator: np.random.Generator) -> np.ndarray:
    """Draw row numbers, int64 (num_batches, batch_size): whole passes in random order, rests dropped.

    A table smaller than a batch gives batches of the whole table.
    """
    size = min(batch_size, num_rows)
    per_pass = num_rows // size
    passes = -(-num_batches // per_pass)
    rows = [generator.permutation(num_rows)[: per_pass * size].reshape(per_pass, size) for _ in range(passes)]
    return np.concatenate(rows)[:num_batches]


class SubgraphSampler:
    """Samples the subgraph around nodes at times, with features: (node type, ids, times) -> HeteroData.

    Args:
        graph: The materialized graph.
        sampler: Temporal sampler over it.
        unique: Give features of each distinct row once, with `row_of` (N,): the feature row of each node.
    """

    def __init__(self, graph: Graph, sampler: BaseSampler, *, unique: bool = False) -> None:
        self._sampler, self._features = sampler, graph.data
        self._data = without_features(graph.data) if unique else graph.data
        self._unique = unique
        self._loaders: dict[str, NodeLoader] = {}

    def sample(self, node_type: str, nodes: torch.Tensor, times: torch.Tensor) -> Any:
        """Sample ids and edges only; `attach` adds the features."""
        ids = torch.arange(len(nodes))
        return self._sampler.sample_from_nodes(
            NodeSamplerInput(input_id=ids, node=nodes, time=times, input_type=node_type)
        )

    def attach(self, node_type: str, output: Any) -> HeteroData:
        """Join sampled ids with their features."""
        if node_type not in self._loaders:
            self._loaders[node_type] = NodeLoader(
                self._data,
                self._sampler,
                input_nodes=(node_type, torch.empty(0, dtype=torch.long)),
                filter_per_worker=True,
            )
        batch = self._loaders[node_type].filter_fn(output)
        if self._unique:
            for name in batch.node_types:
                rows, batch[name].row_of = torch.unique(batch[name].n_id, return_inverse=True)
                batch[name].tf = self._features[name].tf[rows]
        return batch


def without_features(data: HeteroData) -> HeteroData:
    """The same graph with the features left out and the numbers of nodes kept."""
    bare = HeteroData()
    for name in data.node_types:
        bare[name].num_nodes = data[name].num_nodes
        if "time" in data[name]:
            bare[name].time = data[name].time
    for edge_type in data.edge_types:
        bare[edge_type].edge_index = data[edge_type].edge_index
    return bare


@dataclass(frozen=True, kw_only=True)
class Part:
    """One subgraph to sample for a batch: seeds of one node type at their times, with an optional target."""

    node_type: str
    nodes: torch.Tensor
    times: torch.Tensor
    target: torch.Tensor | None = None


Parts = Callable[[int], tuple[Part, ...]]


def entity_parts(seeds: Seeds, rows: Sequence[np.ndarray] | np.ndarray) -> Parts:
    """Parts of an entity task: batch i is the subgraph around the seeds `rows[i]`, with their targets."""

    def parts(index: int) -> tuple[Part, ...]:
        chosen = torch.from_numpy(rows[index])
        target = None if seeds.targets is None else seeds.targets[chosen]
        return (Part(node_type=seeds.node_type, nodes=seeds.nodes[chosen], times=seeds.times[chosen], target=target),)

    return parts


class BatchDataset(Dataset[Batch]):
    """Batch number -> batch."""

    def __init__(self, sampler: SubgraphSampler, parts: Parts, num_batches: int) -> None:
        self._sampler, self._parts, self._num_batches = sampler, parts, num_batches
        self._kept: list[list[Any]] | None = None

    def keep(self) -> None:
        """Sample every batch now and keep ids and edges; features are joined each time."""
        self._kept = [self._sample(self._parts(index)) for index in range(self._num_batches)]

    def __len__(self) -> int:
        return self._num_batches

    def __getitem__(self, index: int) -> Batch:
        parts = self._parts(index)
        outputs = self._kept[index] if self._kept is not None else self._sample(parts)
        batches = []
        for part, output in zip(parts, outputs, strict=True):
            batch = self._sampler.attach(part.node_type, output)
            if part.target is not None:
                batch[part.node_type].y = part.target
            batch.seed_type = part.node_type
            batches.append(batch)
        return batches[0] if len(batches) == 1 else tuple(batches)

    @property
    def replay_gib(self) -> float | None:
        """Memory of the kept ids and edges in GiB, None when nothing is kept."""
        if self._kept is None:
            return None
        arrays = (
            array
            for outputs in self._kept
            for output in outputs
            for kind in ("node", "row", "col", "batch")
            for array in getattr(output, kind).values()
        )
        return float(sum(array.numel() * array.element_size() for array in arrays) / BYTES_PER_GIB)

    def _sample(self, parts: tuple[Part, ...]) -> list[Any]:
        return [self._sampler.sample(part.node_type, part.nodes, part.times) for part in parts]
