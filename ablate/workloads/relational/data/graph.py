"""RelBench tables -> materialized heterogeneous graph, cached on disk without pickle and checked by digest.

A table's rows are nodes with a TensorFrame `tf` and, if it has a time column, `time` in seconds (int64). Every foreign
key gives two edge types. The cache holds plain tensors (`torch.load(weights_only=True, mmap=True)`) beside a JSON of
column names and statistics.
"""

import json
import os
import pickle
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch_frame
from torch_frame import TensorFrame
from torch_frame.data import MultiEmbeddingTensor
from torch_frame.data.stats import StatType
from torch_geometric.data import HeteroData

from ablate.core.errors import StoredDataError, UserError
from ablate.files.disk import file_digest
from ablate.files.locks import folder_lock
from ablate.workloads.relational.data.graph_cache import (
    DESCRIPTION,
    DIGEST_OF_DESCRIPTION,
    column_types,
    graph_digest,
    graph_folder,
    is_intact,
    tables_digest,
    write_durably,
)
from ablate.workloads.relational.data.materialize import Columns, EdgeType, sort_all_columns
from ablate.workloads.relational.data.source import open_dataset
from ablate.workloads.relational.options import RelationalOptions


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A materialized database.

    Attributes:
        data: Nodes, features, times and edges.
        columns: The same edges as the temporal sampler reads them.
        col_stats: Statistics per node type and column, as torch_frame's encoders want them.
        name: Name of the dataset.
        digest: Digest of the tables, column types, embedder and libraries that made it.
        dataset: The RelBench dataset, for its tasks.
    """

    data: HeteroData
    columns: Mapping[EdgeType, Columns]
    col_stats: Mapping[str, Mapping[str, Mapping[StatType, Any]]]
    name: str
    digest: str
    dataset: Any


def load_graph(source: RelationalOptions, announce: Callable[[str], None] = lambda _: None) -> Graph:
    """Load the graph of a study from the cache, materializing it first when it is absent or damaged.

    Of several processes that find no whole graph, one makes it; the others wait and load what it made.

    Args:
        source: Where the tables come from.
        announce: Called with one sentence before slow work, or waiting for it.
    """
    dataset = open_dataset(source, announce)
    name = dataset.manifest.name
    types = column_types(name)
    digest = graph_digest(tables_digest(Path(dataset.dataset_dir)), types)
    folder = graph_folder(digest)
    if not is_intact(folder):
        with folder_lock(folder, lambda: announce(f"waiting for another process that materializes {name}")):
            if not is_intact(folder):
                announce(f"materializing {name} into {folder}")
                from ablate.workloads.relational.data.materialize import materialize  # a trial needs it seldom

                data, col_stats = materialize(dataset, types)
                _write_graph(folder, data, sort_all_columns(data), col_stats)
    data, columns, col_stats = _read_graph(folder)
    return Graph(data=data, columns=columns, col_stats=col_stats, name=name, digest=digest, dataset=dataset)


def _write_graph(
    folder: Path, data: HeteroData, columns: Mapping[EdgeType, Columns], col_stats: Mapping[str, Any]
) -> None:
    """Write tensors, JSON and their digests into a new folder, then move it into place in one step."""
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    partial.mkdir()  # as readable as the umask says; `tempfile` would make it its owner's alone
    try:
        tensors: dict[str, torch.Tensor] = {}
        tables = {node_type: _pack_table(node_type, data[node_type], tensors) for node_type in data.node_types}
        for index, edge_type in enumerate(data.edge_types):
            tensors[f"edge/{index}"] = data[edge_type].edge_index.contiguous()
            tensors[f"colptr/{index}"], tensors[f"row/{index}"] = columns[edge_type].colptr, columns[edge_type].row
        with (partial / "tensors.pt").open("wb") as stream:  # torch's own writer does not say that the disk is full
            torch.save(tensors, stream)
            stream.flush()
            os.fsync(stream.fileno())
        meta = {
            "tables": tables,
            "edges": [list(e) for e in data.edge_types],
            "stats": _map_stats(col_stats, lambda kind, value: (kind.value, value)),
            "size": (partial / "tensors.pt").stat().st_size,
            "digest": file_digest(partial / "tensors.pt"),
        }
        write_durably(partial / DESCRIPTION, json.dumps(meta, default=_plain))
        write_durably(partial / DIGEST_OF_DESCRIPTION, file_digest(partial / DESCRIPTION))
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _pack_table(name: str, store: Any, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    frame: TensorFrame = store.tf
    kinds: dict[str, Any] = {}
    for stype, feature in frame.feat_dict.items():
        key = f"table/{name}/{stype.value}"
        kinds[stype.value] = {"columns": frame.col_names_dict[stype], "multi": not isinstance(feature, torch.Tensor)}
        if isinstance(feature, torch.Tensor):
            tensors[key] = feature.contiguous()
        elif isinstance(feature, MultiEmbeddingTensor):
            tensors[f"{key}/values"], tensors[f"{key}/offset"] = feature.values.contiguous(), feature.offset
            kinds[stype.value]["shape"] = [feature.num_rows, feature.num_cols]
        else:
            raise UserError(f"table {name} has {stype.value} columns, which the graph cache does not know")
    if "time" in store:
        tensors[f"time/{name}"] = store.time.contiguous()
    return kinds


def _read_graph(folder: Path) -> tuple[HeteroData, dict[EdgeType, Columns], dict[str, Any]]:
    meta = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    try:
        tensors = torch.load(folder / "tensors.pt", weights_only=True, mmap=True)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise StoredDataError(f"{folder} holds a damaged graph ({reason}); delete that folder") from error
    data = HeteroData()
    for name, kinds in meta["tables"].items():
        features: dict[Any, Any] = {}
        for kind, entry in kinds.items():
            key = f"table/{name}/{kind}"
            if entry["multi"]:
                num_rows, num_cols = entry["shape"]
                features[torch_frame.stype(kind)] = MultiEmbeddingTensor(
                    num_rows, num_cols, tensors[f"{key}/values"], tensors[f"{key}/offset"]
                )
            else:
                features[torch_frame.stype(kind)] = tensors[key]
        columns = {torch_frame.stype(kind): entry["columns"] for kind, entry in kinds.items()}
        data[name].tf = TensorFrame(features, columns)
        if f"time/{name}" in tensors:
            data[name].time = tensors[f"time/{name}"]
    by_target: dict[EdgeType, Columns] = {}
    for index, edge_type in enumerate(meta["edges"]):
        data[tuple(edge_type)].edge_index = tensors[f"edge/{index}"]
        by_target[tuple(edge_type)] = Columns(colptr=tensors[f"colptr/{index}"], row=tensors[f"row/{index}"])
    return data, by_target, _map_stats(meta["stats"], _unpack)


def _map_stats(col_stats: Mapping[str, Any], change: Callable[[Any, Any], tuple[Any, Any]]) -> dict[str, Any]:
    """Statistics by table, column and kind, with every (kind, value) changed."""
    return {
        table: {column: dict(change(*pair) for pair in stats.items()) for column, stats in columns.items()}
        for table, columns in col_stats.items()
    }


def _plain(value: Any) -> Any:
    return {"tensor": value.tolist()} if isinstance(value, torch.Tensor) else value.item()


def _unpack(kind: str, value: Any) -> tuple[StatType, Any]:
    return StatType(kind), torch.tensor(value["tensor"]) if isinstance(value, dict) else value
