"""The scale `real`, its row counts divided: the streamed path, and the properties that rel-hm has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from ablate.workloads.relational.check.checks import check_dataset
from ablate.workloads.relational.data.source import open_dataset
from ablate.workloads.relational.lookalike import make as lookalike
from ablate.workloads.relational.lookalike.make import SCALES, make_lookalike
from ablate.workloads.relational.lookalike.marker import read_marker
from ablate.workloads.relational.options import RelationalOptions

DIVISOR = 50
ROWS_PER_GROUP = 50_000


def divided(rows_per_group: int = ROWS_PER_GROUP) -> lookalike.Scale:
    """`real` with a fiftieth of its rows, so that its files have several row groups."""
    real = SCALES["real"]
    return replace(
        real,
        num_customers=real.num_customers // DIVISOR,
        num_articles=real.num_articles // DIVISOR,
        num_transactions=real.num_transactions // DIVISOR,
        rows_per_group=rows_per_group,
    )


@pytest.fixture(scope="module")
def reduced(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookalike, "SCALES", {**SCALES, "real": divided()})
        weeks: list[tuple[int, int]] = []
        folder = make_lookalike(
            tmp_path_factory.mktemp("data") / "real", "real", on_week=lambda week, total: weeks.append((week, total))
        )
        assert weeks == [(week, 55) for week in range(1, 56)]  # 2019-09-07 to 2020-09-21
        yield folder


def test_real_has_the_rows_of_rel_hm():
    """Customers and articles exactly; transactions and labels within 1 %, see benchmarks/real_size/result.txt."""
    assert (SCALES["real"].num_customers, SCALES["real"].num_articles) == (1_371_980, 105_542)


def test_files_are_written_in_row_groups_of_a_bounded_size(reduced):
    for path in reduced.rglob("*.parquet"):
        metadata = pq.ParquetFile(path).metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        assert all(size == ROWS_PER_GROUP for size in sizes[:-1]) and 0 < sizes[-1] <= ROWS_PER_GROUP
    assert pq.ParquetFile(reduced / "db" / "transactions.parquet").metadata.num_row_groups > 4
    assert pq.ParquetFile(reduced / "tasks" / "item-sales" / "train.parquet").metadata.num_row_groups > 1


def test_every_check_passes(reduced):
    assert [(result.name, result.detail) for result in check_dataset(reduced) if not result.passed] == []


def test_counts_and_shares_are_those_of_rel_hm(reduced):
    marker = read_marker(reduced)
    assert marker is not None
    rows = marker.rows
    assert rows["db/customer"] == 1_371_980 // DIVISOR and rows["db/article"] == 105_542 // DIVISOR
    assert rows["tasks/item-sales/train"] == 52 * rows["db/article"]
    assert rows["tasks/user-churn/train"] == pytest.approx(3_871_410 / DIVISOR, rel=0.03)
    assert rows["tasks/user-item-purchase/train"] == pytest.approx(3_878_451 / DIVISOR, rel=0.03)
    sales = pd.read_parquet(reduced / "db" / "transactions.parquet")
    assert sales.duplicated().mean() == pytest.approx(0.094, abs=0.01)
    by_article = sales["article_id"].value_counts()
    by_customer = sales["customer_id"].value_counts()
    assert by_article.iloc[: rows["db/article"] // 100].sum() / len(sales) > 0.10  # heavy tails
    assert by_customer.iloc[: rows["db/customer"] // 10].sum() / len(sales) > 0.35
    assert 0.05 < 1 - len(by_customer) / rows["db/customer"] < 0.40  # dangling customers
    assert sales["t_dat"].nunique() == 381


def test_same_bytes_again_and_the_same_rows_in_other_row_groups(reduced, tmp_path, monkeypatch):
    monkeypatch.setattr(lookalike, "SCALES", {**SCALES, "real": divided()})
    again = make_lookalike(tmp_path / "again", "real")
    assert read_marker(again) == read_marker(reduced)  # SHA-256 of every file
    monkeypatch.setattr(lookalike, "SCALES", {**SCALES, "real": divided(rows_per_group=1 << 20)})
    other = make_lookalike(tmp_path / "other", "real")
    for name in ("db/transactions", "tasks/user-churn/train", "tasks/user-item-purchase/train"):
        assert pq.read_table(other / f"{name}.parquet").equals(pq.read_table(reduced / f"{name}.parquet"))


def test_a_dataset_that_was_digested_is_not_digested_again(tmp_path, monkeypatch):
    from ablate.workloads.relational.data.graph import load_graph

    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    source = RelationalOptions(dataset="look-alike", scale="tiny", data_seed=5)
    graph = load_graph(source)
    monkeypatch.setattr(lookalike, "damaged_files", lambda folder, marker: pytest.fail("digested again"))
    assert open_dataset(source).manifest.name == "rel-hm-lookalike-tiny"
    monkeypatch.undo()
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path))
    damaged = Path(graph.dataset.dataset_dir) / "db" / "transactions.parquet"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-100])  # another size: digested, found damaged, made again
    assert load_graph(source).digest == graph.digest
    assert damaged.read_bytes() == whole


PEAK = """
import resource, sys
from pathlib import Path
from ablate.workloads.relational.lookalike import make as lookalike
scale = lookalike.Scale(
    num_customers=20_000, num_articles=2_000, num_transactions=int(sys.argv[1]), rows_per_group=100_000
)
lookalike.SCALES = {**lookalike.SCALES, "real": scale}
lookalike.make_lookalike(Path(sys.argv[2]), "real")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_transactions(tmp_path):
    """Three million transactions more take 120 MB as arrays of five columns; streamed, they take a week's worth."""
    peaks_mib = [
        int(
            subprocess.run(
                [sys.executable, "-c", PEAK, str(rows), str(tmp_path / str(rows))],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        / 1024
        for rows in (500_000, 3_500_000)
    ]
    assert peaks_mib[1] - peaks_mib[0] < 60
