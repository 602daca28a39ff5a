"""Foreign keys of a table -> edges in both directions, and each edge type's columns as the temporal sampler reads them.

Shapes: E edges of a type, T target nodes of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

EdgeType = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The edges of a type by target node.

    Attributes:
        colptr: Where the sources of each target begin in `row`, int64 (T + 1,).
        row: Source nodes, int64 (E,); those of a target ordered by time, oldest first.
    """

    colptr: Tensor
    row: Tensor


def foreign_key_edges(keys: pd.Series) -> tuple[Tensor, Tensor]:
    """Edges between rows and the rows that their foreign key names, sorted as `relbench.modeling.graph` sorts them.

    Args:
        keys: Row numbers of the other table; a row that names none (null) has no edge.

    Returns:
        `edge_index` (2, E) from the rows to the named ones, and the other way round.
    """
    known = keys.notna().to_numpy()
    child = np.flatnonzero(known)
    parent = keys[known].to_numpy().astype(np.int64)
    order = np.argsort(parent, kind="stable")
    return torch.from_numpy(np.stack([child, parent])), torch.from_numpy(np.stack([parent[order], child[order]]))


def sort_columns(data: HeteroData, edge_type: EdgeType) -> Columns:
    """Sort the edges of a type by target node and, where the sources have times, by time (ties keep their order)."""
    source, _, target = edge_type
    row, col = data[edge_type].edge_index.numpy()
    num_targets = int(data[target].num_nodes)
    colptr = np.zeros(num_targets + 1, dtype=np.int64)
    np.cumsum(np.bincount(col, minlength=num_targets), out=colptr[1:])
    times = data[source].time.numpy()[row] if "time" in data[source] else None
    if times is None or np.all(times[1:] >= times[:-1]):  # already in order of time: rows are stored as they happened
        order = np.argsort(col, kind="stable")
    else:
        order = np.lexsort((times, col))
    return Columns(colptr=torch.from_numpy(colptr), row=torch.from_numpy(row[order]))


def sort_all_columns(data: HeteroData) -> Mapping[EdgeType, Columns]:
    """`sort_columns` of every edge type."""
    return {edge_type: sort_columns(data, edge_type) for edge_type in data.edge_types}
