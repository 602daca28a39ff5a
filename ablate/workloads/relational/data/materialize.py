"""RelBench tables with frozen column types -> nodes with TensorFrames, times and edges; texts are hashed offline.

Tables are taken a slice of rows at a time, so that memory stays bounded. E edges of a type, T target nodes of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch_frame
from torch import Tensor
from torch_frame import TensorFrame, stype
from torch_frame.config import TextEmbedderConfig
from torch_frame.data import Dataset, MultiEmbeddingTensor
from torch_frame.data.stats import StatType, compute_col_stats
from torch_geometric.data import HeteroData

from ablate.core.errors import UserError
from ablate.workloads.relational.data.source import load_database, to_unix_seconds

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


ROWS_PER_SLICE = 500_000
_TEXTS_AT_ONCE = 50_000

Stats = dict[str, dict[StatType, Any]]


def materialize(
    dataset: Any, types: Mapping[str, Mapping[str, str]], rows_per_slice: int = ROWS_PER_SLICE
) -> tuple[HeteroData, dict[str, Stats]]:
    """Turn the tables up to the test stamp into a graph; missing numbers become the mean of their column.

    Args:
        dataset: `relbench.load.RelBenchDataset`.
        types: Type per table and column.
        rows_per_slice: Rows converted at once; does not change the result.

    Returns:
        The graph, and statistics per table and column.

    Raises:
        UserError: a table lacks a column that has a type.
    """
    database = load_database(dataset)
    lengths = {name: len(table.df) for name, table in database.table_dict.items()}
    data, stats = HeteroData(), {}
    for name in list(database.table_dict):
        table = database.table_dict.pop(name)  # its rows are let go before the next table's are converted
        absent = sorted(set(types[name]) - set(table.df.columns))
        if absent:
            raise UserError(f"table {name} of {dataset.dataset_dir} lacks the columns {', '.join(absent)}")
        kinds = {column: stype(kind) for column, kind in types[name].items()}
        data[name].tf, stats[name] = convert_table(table.df, kinds, rows_per_slice)
        _fill_missing_numbers(data[name].tf)
        if table.time_col is not None:
            data[name].time = torch.from_numpy(to_unix_seconds(table.df[table.time_col], f"{name}.{table.time_col}"))
        for key, parent in table.fkey_col_to_pkey_table.items():
            edges = foreign_key_edges(table.df[key])
            if edges[0].numel() and not 0 <= int(edges[0][1].min()) <= int(edges[0][1].max()) < lengths[parent]:
                raise UserError(
                    f"{name}.{key} of {dataset.dataset_dir} names rows that table {parent} does not have; "
                    "`ablate data check` says how many"
                )
            data[name, f"f2p_{key}", parent].edge_index = edges[0]
            data[parent, f"rev_f2p_{key}", name].edge_index = edges[1]
    data.validate()
    return data, stats


def convert_table(frame: pd.DataFrame, kinds: Mapping[str, stype], rows_per_slice: int) -> tuple[TensorFrame, Stats]:
    """Convert the typed columns of a table as pytorch-frame's `Dataset.materialize` does, slice by slice."""
    embedder = TextEmbedderConfig(text_embedder=embed_texts, batch_size=_TEXTS_AT_ONCE)
    stats: Stats = {column: column_stats(frame[column], kind) for column, kind in kinds.items()}
    whole: TensorFrame | None = None
    for start in range(0, len(frame), rows_per_slice):
        rows = frame.iloc[start : start + rows_per_slice].reset_index(drop=True)
        part = Dataset(rows, dict(kinds), col_to_text_embedder_cfg=embedder).materialize(col_stats=stats).tensor_frame
        whole = _allocate(part, len(frame)) if whole is None else whole
        for kind, feature in part.feat_dict.items():
            _values(whole.feat_dict[kind])[start : start + len(rows)] = _values(feature)
    assert whole is not None, "a table has rows"
    return whole, stats


def column_stats(column: pd.Series, kind: stype) -> dict[StatType, Any]:
    """`torch_frame.data.stats.compute_col_stats`, without its Python object per number."""
    is_number = kind == torch_frame.numerical and pd.api.types.is_numeric_dtype(column)
    finite = column[np.isfinite(column)].to_numpy() if is_number else np.empty(0)
    if not len(finite):
        stats: dict[StatType, Any] = compute_col_stats(column, kind)
        return stats
    return {
        StatType.MEAN: np.mean(finite).item(),
        StatType.STD: np.std(finite).item(),
        StatType.QUANTILES: np.quantile(finite, q=[0, 0.25, 0.5, 0.75, 1]).tolist(),
    }


def _values(feature: Any) -> torch.Tensor:
    return feature if isinstance(feature, torch.Tensor) else feature.values


def _allocate(part: TensorFrame, num_rows: int) -> TensorFrame:
    """A frame of `num_rows` rows, still without content, with the columns of a part."""
    features: dict[stype, Any] = {}
    for kind, feature in part.feat_dict.items():
        values = _values(feature)
        room = torch.empty((num_rows, *values.shape[1:]), dtype=values.dtype)
        if isinstance(feature, torch.Tensor):
            features[kind] = room
        elif isinstance(feature, MultiEmbeddingTensor):
            features[kind] = MultiEmbeddingTensor(num_rows, feature.num_cols, room, feature.offset)
        else:
            raise UserError(f"the graph does not know how to keep {kind.value} columns")
    return TensorFrame(features, part.col_names_dict)


def _fill_missing_numbers(frame: TensorFrame) -> None:
    """Replace missing numbers by the mean of their column, in place.

    pytorch-frame's encoder turns the output of a missing number into 0, but its weight gets a NaN gradient all the
    same: after one step the column's weight is NaN and the column is lost for good, without an error.
    """
    numbers = frame.feat_dict.get(torch_frame.numerical)
    if numbers is not None:
        missing = numbers.isnan()
        numbers[missing] = numbers.nanmean(dim=0).nan_to_num().expand_as(numbers)[missing]


DIMENSIONS = 48  # changing what is computed here needs another name in `graph_cache.EMBEDDER`


def embed_texts(texts: list[str]) -> torch.Tensor:
    """Embed texts by feature hashing, L2-normalized; the same text gives the same vector on every machine.

    Args:
        texts: N texts; missing ones may be None or NaN and give the zero vector.

    Returns:
        float32 tensor of shape (N, 48).
    """
    # takes a second to import, and a trial embeds nothing
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        n_features=DIMENSIONS, ngram_range=(1, 2), norm="l2", token_pattern=r"(?u)\b\w+\b", lowercase=True
    )
    words = [text if isinstance(text, str) else "" for text in texts]
    return torch.from_numpy(vectorizer.transform(words).toarray()).float()
