"""Seeds with times -> temporal subgraph, through one PyG `BaseSampler`: pyg-lib where it is installed, else native.

Both are disjoint per seed and take the most recent neighbors at or before the seed's time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput
from torch_geometric.typing import WITH_PYG_LIB

from ablate.core.errors import UserError
from ablate.workloads.relational.data.graph import Graph
from ablate.workloads.relational.data.materialize import Columns, EdgeType, sort_all_columns


def make_sampler(graph: Graph, num_neighbors: Sequence[int]) -> BaseSampler:
    """Return the temporal sampler of this machine for `num_neighbors[hop]` neighbors per edge type."""
    if WITH_PYG_LIB:
        from torch_geometric.sampler import NeighborSampler

        return NeighborSampler(
            graph.data, num_neighbors=list(num_neighbors), disjoint=True, temporal_strategy="last", time_attr="time"
        )
    return NativeSampler(graph.data, num_neighbors, graph.columns)


def sampler_name() -> str:
    """Name of the sampler in use, for the trial record."""
    return "pyg-lib" if WITH_PYG_LIB else "native"


class NativeSampler(BaseSampler):  # type: ignore[misc]  # PyG has no types
    """Temporal heterogeneous sampling by the native extension of `structured-data-models-relational-engine`.

    Args:
        data: Graph with `edge_index` per edge type and `time` (int64 seconds) on the node types that have one.
        num_neighbors: Neighbors per hop, the same for every edge type.
        columns: Sorted columns of every edge type; worked out when they are not given.
    """

    def __init__(
        self, data: HeteroData, num_neighbors: Sequence[int], columns: Mapping[EdgeType, Columns] | None = None
    ) -> None:
        try:
            from sdm_relational_engine.relationallib import NeighborSampler as Native
        except ImportError as error:
            raise UserError(
                "temporal sampling needs pyg-lib or structured-data-models-relational-engine; "
                "install the second with pip"
            ) from error
        self._edge_types = list(data.edge_types)
        self._node_types = list(data.node_types)
        dated = [name for name in data.node_types if "time" in data[name]]
        times = {name: np.ascontiguousarray(data[name].time.numpy(), dtype=np.int64) for name in dated}
        columns = columns or sort_all_columns(data)
        colptr = {"__".join(edge_type): columns[edge_type].colptr.numpy() for edge_type in self._edge_types}
        row = {"__".join(edge_type): columns[edge_type].row.numpy() for edge_type in self._edge_types}
        # The extension borrows these arrays and crashes the interpreter when they are collected.
        self._borrowed = (colptr, row, times)
        self._native = Native(self._node_types, self._edge_types, colptr, row, times)
        self._num_neighbors = {"__".join(edge_type): list(num_neighbors) for edge_type in self._edge_types}

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> HeteroSamplerOutput:
        """Sample around `index.node` (shape (S,)) at `index.time` (seconds, shape (S,))."""
        if index.time is None or index.input_type is None:
            raise ValueError("temporal sampling needs a node type and a time per seed")
        seeds = np.ascontiguousarray(index.node.numpy(), dtype=np.int64)
        times = np.ascontiguousarray(index.time.numpy(), dtype=np.int64)
        row, col, node, batch, num_nodes, num_edges = self._native.sample(
            self._num_neighbors, {}, index.input_type, seeds, times
        )
        by_edge = {edge_type: "__".join(edge_type) for edge_type in self._edge_types}
        return HeteroSamplerOutput(
            node={name: _tensor(node[name]) for name in self._node_types},
            row={edge_type: _tensor(row[key]) for edge_type, key in by_edge.items()},
            col={edge_type: _tensor(col[key]) for edge_type, key in by_edge.items()},
            edge={edge_type: None for edge_type in self._edge_types},
            batch={name: _tensor(batch[name]) for name in self._node_types},
            num_sampled_nodes={name: list(map(int, num_nodes[name])) for name in self._node_types},
            num_sampled_edges={edge_type: list(map(int, num_edges[key])) for edge_type, key in by_edge.items()},
            metadata=(index.input_id, index.time),
        )

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        """Not offered: every task here starts from nodes."""
        raise UserError("link sampling from edges is not offered; sample each end from its nodes")

    @property
    def edge_permutation(self) -> None:
        return None


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(torch.int64)
