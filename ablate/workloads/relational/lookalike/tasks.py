"""Transactions -> the label tables of the three rel-hm tasks, whose manifests lie in `manifests/`.

A transaction belongs to week k if its day lies in (seed k - 7 d, seed k]; seed 0 is 2019-09-09. The label window of
seed k is therefore week k + 1, and the customers whose churn is asked at seed k are those of week k.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from relbench.manifest import DatasetManifest, TableSpec

FIRST_DAY = np.datetime64("2019-09-07", "ns")
FIRST_SEED = np.datetime64("2019-09-09", "ns")
TASKS = ("user-churn", "item-sales", "user-item-purchase")
SEEDS_OF_SPLIT = {"train": range(0, 52), "val": range(52, 53), "test": range(53, 54)}
VAL_TIMESTAMP, TEST_TIMESTAMP = "2020-09-07", "2020-09-14"
_DAY = np.timedelta64(86_400_000_000_000, "ns")


def week_of_day(day: int) -> int:
    """Week of a day counted from 2019-09-07: days 0 to 2 are week 0, days 3 to 9 week 1."""
    return (day + 4) // 7


def day_timestamp(day: int | np.ndarray) -> np.datetime64 | np.ndarray:
    """Timestamp in nanoseconds of a day counted from 2019-09-07."""
    return FIRST_DAY + day * _DAY


def dataset_manifest(scale: str) -> DatasetManifest:
    """The dataset manifest: rel-hm's tables, keys and split stamps under a name that says that it is a look-alike."""
    return DatasetManifest(
        name=f"rel-hm-lookalike-{scale}",
        val_timestamp=VAL_TIMESTAMP,
        test_timestamp=TEST_TIMESTAMP,
        description="Synthetic look-alike of rel-hm: same schema and tasks, no row of the original.",
        tables={
            "article": TableSpec(pkey="article_id"),
            "customer": TableSpec(pkey="customer_id"),
            "transactions": TableSpec(time_col="t_dat", fkeys={"customer_id": "customer", "article_id": "article"}),
        },
    )


def label_tables(weeks: Iterable[pa.Table], num_articles: int) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Yield (seed number, task name -> labels at that seed), in order, as the weeks of sales arrive.

    Args:
        weeks: Transactions of all weeks 0, 1, ... in order; few are kept at a time.
        num_articles: Rows of the article table.
    """
    for seed, (before, after) in enumerate(pairwise(weeks)):
        labels = (_churn(seed, before, after), _sales(seed, after, num_articles), _purchases(seed, after, num_articles))
        yield seed, dict(zip(TASKS, labels, strict=True))


def _seed_column(seed: int, rows: int) -> np.ndarray:
    return np.full(rows, FIRST_SEED + 7 * seed * _DAY)


def _churn(seed: int, before: pa.Table, after: pa.Table) -> pa.Table:
    customer = np.unique(before["customer_id"])
    churn = ~np.isin(customer, after["customer_id"])
    return pa.table(
        {"timestamp": _seed_column(seed, len(customer)), "customer_id": customer, "churn": churn.astype(np.int64)}
    )


def _sales(seed: int, after: pa.Table, num_articles: int) -> pa.Table:
    sales = np.bincount(after["article_id"], weights=after["price"], minlength=num_articles)
    article = np.arange(num_articles, dtype=np.int64)
    return pa.table({"timestamp": _seed_column(seed, num_articles), "article_id": article, "sales": sales})


def _purchases(seed: int, after: pa.Table, num_articles: int) -> pa.Table:
    pairs = after["customer_id"].to_numpy() * num_articles + after["article_id"].to_numpy()
    buyer, article = np.divmod(np.unique(pairs), num_articles)
    customer, first = np.unique(buyer, return_index=True)
    offsets = np.append(first, len(buyer)).astype(np.int32)
    return pa.table(
        {
            "timestamp": _seed_column(seed, len(customer)),
            "customer_id": customer,
            "article_id": pa.ListArray.from_arrays(pa.array(offsets), pa.array(article)),
        }
    )
