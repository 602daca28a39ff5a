"""Labels in the wrong unit are refused, and the cached graph survives damage."""

import shutil

import numpy as np
import pandas as pd
import pytest
import relbench
import torch
import torch_frame

from ablate.core.errors import UserError
from ablate.workloads.relational.data.graph import column_types, load_graph
from ablate.workloads.relational.data.labels import (
    check_visible,
    entity_seeds,
    link_seeds,
    load_table,
    load_task,
    permute_labels,
)
from ablate.workloads.relational.data.materialize import embed_texts
from ablate.workloads.relational.data.source import coerce_times, to_unix_seconds
from ablate.workloads.relational.lookalike.make import make_lookalike
from ablate.workloads.relational.options import RelationalOptions
from real_parts import TINY, tiny_graph


def test_seconds_of_a_known_day_in_every_unit():
    for unit in ("ns", "us", "ms", "s"):
        times = pd.Series(np.array(["2020-09-07"], dtype=f"datetime64[{unit}]"))
        assert to_unix_seconds(times, "x").tolist() == [1_599_436_800]


def test_microseconds_as_numbers_are_refused():
    with pytest.raises(UserError, match="wrong time unit"):
        to_unix_seconds(pd.Series([1_599_436_800_000_000]), "labels")
    with pytest.raises(UserError, match="wrong time unit"):
        to_unix_seconds(pd.Series([1_599_436]), "labels")


def test_times_read_in_the_wrong_unit_are_refused():
    wrong = pd.DataFrame({"t": pd.to_datetime([1_599_436_800_000], unit="us")})  # milliseconds taken for microseconds
    with pytest.raises(UserError, match="1970"):
        coerce_times(wrong, "transactions")


def test_seeds_of_microsecond_labels_see_nothing(tmp_path):
    folder = make_lookalike(tmp_path / "data", "tiny")
    path = folder / "tasks" / "user-churn" / "train.parquet"
    frame = pd.read_parquet(path)
    shifted = frame.timestamp.astype("int64") // 1000  # what relbench makes of microsecond labels
    frame["timestamp"] = pd.to_datetime(shifted, unit="ns")
    frame.to_parquet(path)
    graph = load_graph(RelationalOptions(dataset=str(folder)))
    task = load_task(graph, "user-churn")
    with pytest.raises(UserError, match="1970"):
        entity_seeds(task, load_table(task, "train"))


def test_visible_share_of_early_seeds_is_refused():
    graph = tiny_graph()
    task = load_task(graph, "user-churn")
    seeds = entity_seeds(task, load_table(task, "train"))
    assert check_visible(graph, seeds, "labels") > 0.2
    early = type(seeds)(node_type=seeds.node_type, nodes=seeds.nodes, times=seeds.times // 1000, targets=seeds.targets)
    with pytest.raises(UserError, match=r"see 0 of [\d]+ dated rows"):
        check_visible(graph, early, "labels")


def test_link_seeds_keep_each_rows_list():
    task = load_task(tiny_graph(), "user-item-purchase")
    table = load_table(task, "val")
    seeds = link_seeds(task, table)
    for row in (0, 7, len(seeds) - 1):
        own = seeds.destinations[seeds.offsets[row] : seeds.offsets[row + 1]]
        assert own.tolist() == list(table.df.article_id.iloc[row])


def test_permuted_labels_are_the_same_labels_elsewhere():
    task = load_task(tiny_graph(), "user-churn")
    seeds = entity_seeds(task, load_table(task, "train"))
    shuffled = permute_labels(seeds, 3)
    assert torch.equal(seeds.targets.sort().values, shuffled.targets.sort().values)
    assert not torch.equal(seeds.targets, shuffled.targets)
    assert torch.equal(seeds.nodes, shuffled.nodes)


def test_unknown_dataset_and_folder_say_what_to_do(tmp_path):
    with pytest.raises(UserError, match=r"no manifest.yaml"):
        load_graph(RelationalOptions(dataset=str(tmp_path)))
    with pytest.raises(UserError, match=r"column_types"):
        column_types("rel-unknown")


def test_column_types_cover_the_tables_and_only_them():
    database = relbench.load_dataset(make_lookalike_folder()).get_db()
    types = column_types("rel-hm")
    for name, table in database.table_dict.items():
        keys = {table.pkey_col, *table.fkey_col_to_pkey_table}
        assert set(types[name]) == set(table.df.columns) - keys


def make_lookalike_folder():
    return tiny_graph().dataset.dataset_dir


def test_a_damaged_graph_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    said: list[str] = []
    first = load_graph(TINY, said.append)
    load_graph(TINY, said.append)
    assert sum(line.startswith("materializing") for line in said) == 1  # the second time comes from the cache
    tensors = tmp_path / "graphs" / first.digest / "tensors.pt"
    content = bytearray(tensors.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shutil.copy(tensors, tmp_path / "whole.pt")
    tensors.write_bytes(bytes(content))
    again = load_graph(TINY, said.append)
    assert sum(line.startswith("materializing") for line in said) == 2
    assert again.digest == first.digest
    assert torch.equal(again.data["transactions"].time, tiny_graph().data["transactions"].time)


def test_cached_graph_equals_relbench_own(tmp_path, monkeypatch):
    graph = tiny_graph()
    database = graph.dataset.get_db()
    sales = database.table_dict["transactions"].df
    assert graph.data["transactions"].time.tolist() == to_unix_seconds(sales.t_dat, "t").tolist()
    edges = graph.data["transactions", "f2p_article_id", "article"].edge_index
    by_row = dict(zip(edges[0].tolist(), edges[1].tolist(), strict=True))
    assert [by_row[i] for i in range(20)] == sales.article_id.iloc[:20].astype(int).tolist()


def test_missing_numbers_are_the_mean_of_their_column():
    ages = tiny_graph().dataset.get_db().table_dict["customer"].df.age
    frame = tiny_graph().data["customer"].tf
    column = frame.col_names_dict[torch_frame.numerical].index("age")
    stored = frame.feat_dict[torch_frame.numerical][:, column]
    assert ages.isna().any() and not stored.isnan().any()
    assert stored[int(ages.isna().to_numpy().argmax())].item() == pytest.approx(ages.mean(), rel=1e-5)


def test_text_embedding_is_stable_and_blank_for_missing():
    vectors = embed_texts(["Strap top", "strap TOP", None])
    assert vectors.shape == (3, 48)
    assert torch.equal(vectors[0], vectors[1])
    assert vectors[0].norm().item() == pytest.approx(1.0)
    assert vectors[2].abs().sum() == 0
