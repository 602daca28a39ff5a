"""Options and a task's labels -> what the relational workloads share: graph, sampler, model, batches and their sums."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.core.record import Metric
from ablate.core.workload import WorkloadInfo
from ablate.workloads.contract import Batch, Forward, Predictions, WorkloadContext, measured
from ablate.workloads.relational.data.graph import load_graph
from ablate.workloads.relational.data.labels import Seeds, check_visible, load_table, load_task, permute_labels
from ablate.workloads.relational.data.sampler import make_sampler, sampler_name
from ablate.workloads.relational.data.stream import BatchDataset, Parts, SubgraphSampler, stream_generator
from ablate.workloads.relational.edge_cases import edge_cases, one_seed
from ablate.workloads.relational.gnn import TemporalGNN, make_inputs
from ablate.workloads.relational.options import RelationalOptions

EVALUATION_BATCH = 512


class RelationalWorkload(ABC):
    """One task of a relational dataset; a batch is a sampled subgraph (`HeteroData`), or a tuple of them.

    Args:
        context: Options (`RelationalOptions`), training, recipe.
        info: What the workload declares.
        task: Name of the task in the dataset.
        make_seeds: (task, label table) -> seeds.

    Attributes:
        num_train_rows: Rows of the training label table.
    """

    model: torch.nn.Module
    embedded: tuple[str, ...] = ()

    def __init__(
        self, context: WorkloadContext, info: WorkloadInfo, task: str, make_seeds: Callable[[Any, Any], Seeds]
    ) -> None:
        self.info, self.recipe, self.batch_size = info, context.recipe, context.training.batch_size
        self.options: RelationalOptions = context.options
        with torch.random.fork_rng(devices=[]):  # a graph that must be made first changes no initial weight
            self.graph = load_graph(self.options)
        self.data_name, self.data_digest = self.graph.name, self.graph.digest
        self.environment = {"sampler": sampler_name()}
        sampler = make_sampler(self.graph, self.options.num_neighbors)
        self._subgraphs = SubgraphSampler(self.graph, sampler, unique=self.recipe.model.get("rows") == "distinct")
        self.task, self._make_seeds = load_task(self.graph, task), make_seeds
        self.seeds = make_seeds(self.task, load_table(self.task, "train"))
        check_visible(self.graph, self.seeds, f"training labels of {info.name}")
        if self.options.label_seed is not None:
            self.seeds = permute_labels(self.seeds, self.options.label_seed)
        self.num_train_rows = len(self.seeds)

    def make_model(self, out_channels: int) -> TemporalGNN:
        """Draw the inner module."""
        return TemporalGNN(self.graph, self.options, self.recipe, out_channels=out_channels, embedded=self.embedded)

    @abstractmethod
    def train_parts(self, num_batches: int, generator: np.random.Generator) -> Parts:
        """Draw the training batches of a trial, as parts to sample."""

    @abstractmethod
    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Training loss of a batch."""

    def batches(self, num_steps: int, seed: int) -> BatchDataset:
        """The batches of a training, sampled when asked for."""
        return BatchDataset(self._subgraphs, self.train_parts(num_steps, stream_generator(seed)), num_steps)

    def num_samples(self, batch: Batch) -> int:
        """Seeds of a batch; those of a tuple's parts belong together."""
        first = graphs_of(batch)[0]
        return int(first[first.seed_type].batch_size)

    def checksum(self, batch: Batch) -> int:
        """CRC-32 over seeds, times, targets, sampled node ids and edges; features follow from the ids."""
        value = 0
        for graph in graphs_of(batch):
            seeds = graph[graph.seed_type]
            arrays = [seeds.n_id[: seeds.batch_size], seeds.seed_time, *([seeds.y] if "y" in seeds else [])]
            arrays += [graph[name].n_id for name in sorted(graph.node_types)]
            edges = [graph[edge_type].edge_index for edge_type in sorted(graph.edge_types)]
            arrays += [index[0] for index in edges] + [index[1] for index in edges]
            for array in arrays:
                value = zlib.crc32(np.ascontiguousarray(array.numpy()).data, value)
        return value

    def sizes(self, batch: Batch) -> dict[str, int]:
        """Nodes by type and edges by `source relation target`; keys of a tuple's later parts are numbered."""
        found: dict[str, int] = {}
        for index, graph in enumerate(graphs_of(batch)):
            prefix = f"{index}/" if index else ""
            found |= {prefix + name: graph[name].n_id.numel() for name in graph.node_types}
            found |= {prefix + " ".join(e): graph[e].edge_index.size(1) for e in graph.edge_types}
        return found

    def edge_cases(self, dataset: BatchDataset) -> Iterator[tuple[str, Batch, bool]]:
        """Yield (name, batch, whether it must come first)."""
        single = BatchDataset(self._subgraphs, one_seed(self.train_parts(1, np.random.default_rng(0))), 1)
        return edge_cases(dataset[0], single[0])

    def inputs(self, graph: Any) -> tuple[Any, ...]:
        """The arguments of the model for one subgraph."""
        return make_inputs(graph, self.recipe, self.embedded)

    def validation(self) -> tuple[Any, Seeds]:
        """The label table of the validation split, thinned as the options say, and its seeds."""
        table = load_table(self.task, "val", self.options.validation_rows)
        return table, self._make_seeds(self.task, table)

    def outputs(self, parts: Parts, num_batches: int, to_device: Callable[[Batch], Batch]) -> Iterator[Tensor]:
        """Yield what the uncompiled module says of batches of one part each."""
        dataset = BatchDataset(self._subgraphs, parts, num_batches)
        for index in range(num_batches):
            yield self.model(*self.inputs(to_device(dataset[index])))

    def score(self, predictions: Predictions) -> Metric:
        """Score predictions with the task's own RelBench evaluator."""
        scores = self.task.evaluate(predictions.values, predictions.table)
        return measured(self.info, scores[self.info.metric], len(predictions.table.df))


def graphs_of(batch: Batch) -> tuple[Any, ...]:
    """The subgraphs of a batch."""
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def split_rows(num_rows: int, size: int = EVALUATION_BATCH) -> list[np.ndarray]:
    """Row numbers 0..num_rows-1 in chunks of at most `size`."""
    return [np.arange(start, min(start + size, num_rows)) for start in range(0, num_rows, size)]
