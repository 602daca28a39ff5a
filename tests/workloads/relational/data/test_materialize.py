"""Tables -> graph in slices: bit for bit what RelBench makes of whole tables, and columns sorted by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import torch_frame
from relbench.modeling.graph import make_pkey_fkey_graph
from torch_frame.config import TextEmbedderConfig
from torch_frame.data.stats import compute_col_stats
from torch_geometric.data import HeteroData

from ablate.core.errors import UserError
from ablate.workloads.relational.data.graph import column_types, load_graph
from ablate.workloads.relational.data.materialize import (
    column_stats,
    embed_texts,
    foreign_key_edges,
    materialize,
    sort_columns,
)
from ablate.workloads.relational.data.source import load_database, open_dataset
from real_parts import TINY


def values(feature) -> torch.Tensor:
    return feature if isinstance(feature, torch.Tensor) else feature.values


@pytest.fixture(scope="module")
def from_relbench():
    dataset = open_dataset(TINY)
    types = {
        table: {column: torch_frame.stype(kind) for column, kind in columns.items()}
        for table, columns in column_types(dataset.manifest.name).items()
    }
    embedder = TextEmbedderConfig(text_embedder=embed_texts, batch_size=50_000)
    return make_pkey_fkey_graph(load_database(dataset), types, text_embedder_cfg=embedder)


@pytest.mark.parametrize("rows_per_slice", [7_001, 1_000_000])
def test_slices_give_what_relbench_makes_of_whole_tables(from_relbench, rows_per_slice):
    expected, expected_stats = from_relbench
    dataset = open_dataset(TINY)
    data, stats = materialize(dataset, column_types(dataset.manifest.name), rows_per_slice)
    assert (data.node_types, data.edge_types) == (expected.node_types, expected.edge_types)
    assert [list(columns) for columns in stats.values()] == [list(columns) for columns in expected_stats.values()]
    assert repr(stats) == repr(expected_stats)
    for name in data.node_types:
        found, wanted = data[name].tf, expected[name].tf
        assert found.col_names_dict == wanted.col_names_dict
        assert list(found.feat_dict) == list(wanted.feat_dict)
        for kind, feature in wanted.feat_dict.items():
            assert values(found.feat_dict[kind]).dtype == values(feature).dtype
            if kind != torch_frame.numerical:
                assert torch.equal(values(found.feat_dict[kind]), values(feature))
                continue
            missing = feature.isnan()  # filled with the mean of the column; pytorch-frame would lose its weight
            assert torch.equal(found.feat_dict[kind][~missing], feature[~missing])
            means = feature.nanmean(dim=0).expand_as(feature)
            assert torch.equal(found.feat_dict[kind][missing], means[missing])
    assert torch.equal(data["transactions"].time, expected["transactions"].time)
    for edge_type in data.edge_types:
        assert torch.equal(data[edge_type].edge_index, expected[edge_type].edge_index)


@pytest.mark.parametrize(
    "numbers",
    [[3, 1, 2, 2], [1.5, np.nan, -2.0, 8.25], [np.inf, 1.0, -np.inf, 4.0], [np.nan, np.nan], [np.inf, np.nan]],
)
def test_statistics_of_numbers_are_pytorch_frame_s(numbers):
    column = pd.Series(numbers)
    found, wanted = (of(column, torch_frame.numerical) for of in (column_stats, compute_col_stats))
    assert repr(found) == repr(wanted)


def test_a_null_key_has_no_edge():
    forward, back = foreign_key_edges(pd.Series([2.0, np.nan, 0.0, 2.0]))
    assert forward.tolist() == [[0, 2, 3], [2, 0, 2]]
    assert back.tolist() == [[0, 2, 2], [2, 0, 3]]


@pytest.mark.parametrize(
    "times, sources",
    [
        ([10, 20, 30, 40, 50], [0, 3, 1, 4]),  # in order of time: as stored
        ([50, 20, 30, 10, 50], [3, 0, 1, 4]),  # customer 0 bought at 10 (sale 3), then at 50 (sale 0)
        ([30, 20, 30, 30, 10], [0, 3, 4, 1]),  # equal times keep their order
    ],
)
def test_columns_are_sorted_by_target_and_time(times, sources):
    data = HeteroData()
    data["customer"].num_nodes, data["sale"].num_nodes = 3, 5
    data["sale"].time = torch.tensor(times)
    edge_type = ("sale", "by", "customer")
    data[edge_type].edge_index = torch.tensor([[0, 1, 3, 4], [0, 2, 0, 2]])
    columns = sort_columns(data, edge_type)
    assert columns.colptr.tolist() == [0, 2, 2, 4]  # customer 1 bought nothing
    assert columns.row.tolist() == sources


def test_the_cache_keeps_the_columns():
    graph = load_graph(TINY)
    for edge_type in graph.data.edge_types:
        columns = sort_columns(graph.data, edge_type)
        assert torch.equal(graph.columns[edge_type].row, columns.row)
        assert torch.equal(graph.columns[edge_type].colptr, columns.colptr)


def test_a_missing_column_is_named():
    dataset = open_dataset(TINY)
    types = column_types(dataset.manifest.name)
    types["customer"]["shoe_size"] = "numerical"
    with pytest.raises(UserError, match=r"table customer .* lacks the columns shoe_size"):
        materialize(dataset, types)


PEAK = """
import resource, sys
from pathlib import Path
import relbench
from ablate.workloads.relational.lookalike import make as lookalike
from ablate.workloads.relational.data.materialize import sort_all_columns
from ablate.workloads.relational.data.graph import column_types
from ablate.workloads.relational.data.materialize import materialize
scale = lookalike.Scale(num_customers=20_000, num_articles=2_000, num_transactions=int(sys.argv[1]))
lookalike.SCALES = {**lookalike.SCALES, "real": scale}
dataset = relbench.load_dataset(lookalike.make_lookalike(Path(sys.argv[2]), "real"))
data, _ = materialize(dataset, column_types(dataset.manifest.name), 200_000)
columns = sort_all_columns(data)
print(data["transactions"].tf.num_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_memory_is_that_of_the_graph_and_little_more(tmp_path):
    """A transaction takes 188 bytes: 76 of features and time, 64 of edges in four directions, 48 of columns."""
    found: list[list[int]] = []
    for rows in (300_000, 2_300_000):
        command = [sys.executable, "-W", "ignore", "-c", PEAK, str(rows), str(tmp_path / str(rows))]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append([int(word) for word in printed.split()])
    (few, small), (many, large) = found
    assert (large - small) / (many - few) < 350
