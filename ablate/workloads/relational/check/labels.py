"""Transactions and the stored labels of one rel-hm task -> what is wrong with the labels, if anything."""

import zlib

import numpy as np
import pandas as pd

_NUM_SEEDS = 2
_TOLERANCE = 1e-6  # of a sum of prices


def label_problem(sales: pd.DataFrame, task: str, labels: pd.DataFrame, num_articles: int) -> tuple[str | None, int]:
    """Recompute all labels at two random seed times (the same ones on every call) and compare.

    Rows in (seed - 7 d, seed] decide which customers user-churn asks about; only rows in (seed, seed + 7 d]
    decide labels. A row counted on the wrong side of either border is a difference.

    Args:
        sales: Transactions with `t_dat` in nanoseconds.
        task: `user-churn`, `item-sales` or `user-item-purchase`.
        labels: Columns `seed` (nanoseconds), `entity` and `target`.
        num_articles: Rows of the article table.

    Returns:
        The first difference in words, or None; and the number of labels compared.
    """
    num_labels = 0
    for seed in _sample_seeds(labels["seed"], task):
        stored = labels[labels["seed"] == seed].sort_values("entity")
        problem = _difference(stored, expected_labels(sales, task, seed, num_articles))
        if problem:
            return f"seed {seed:%Y-%m-%d}: {problem}", num_labels
        num_labels += len(stored)
    return None, num_labels


def expected_labels(sales: pd.DataFrame, task: str, seed: pd.Timestamp, num_articles: int) -> pd.Series:
    """Labels of one rel-hm task at one seed time, by definition.

    Args:
        sales: Transactions with `t_dat` in nanoseconds.
        task: `user-churn`, `item-sales` or `user-item-purchase`.
        seed: Seed time.
        num_articles: Rows of the article table.

    Returns:
        Labels indexed by entity, in increasing order; lists of articles as sorted tuples.
    """
    week = pd.Timedelta(days=7)
    before = sales[(sales["t_dat"] > seed - week) & (sales["t_dat"] <= seed)]
    after = sales[(sales["t_dat"] > seed) & (sales["t_dat"] <= seed + week)]
    if task == "user-churn":
        customers = np.unique(before["customer_id"].dropna())
        return pd.Series((~np.isin(customers, after["customer_id"])).astype(np.int64), index=customers)
    if task == "item-sales":
        return after.groupby("article_id")["price"].sum().reindex(np.arange(num_articles), fill_value=0.0)
    pair = ["customer_id", "article_id"]
    distinct = after[pair].dropna().drop_duplicates().sort_values(pair)
    return distinct.groupby("customer_id")["article_id"].agg(tuple)


def _sample_seeds(seeds: pd.Series, task: str) -> list[pd.Timestamp]:
    distinct = np.sort(seeds.unique())
    rng = np.random.default_rng(zlib.crc32(task.encode()))
    chosen = rng.choice(distinct, min(_NUM_SEEDS, len(distinct)), replace=False)
    return [pd.Timestamp(seed) for seed in sorted(chosen)]


def _difference(stored: pd.DataFrame, expected: pd.Series) -> str | None:
    """What differs between labels in order of their entities, in words, or None."""
    if not np.array_equal(stored["entity"].to_numpy(), expected.index.to_numpy()):
        wrong = len(np.setxor1d(stored["entity"], expected.index)) or len(stored) - len(expected)
        return f"{wrong:,} entities are missing, unexpected or twice"
    pairs = list(zip(stored["target"], expected, strict=True))
    differs = np.array([not _equal(found, wanted) for found, wanted in pairs], dtype=bool)
    if not differs.any():
        return None
    found, wanted = pairs[int(np.argmax(differs))]
    where = expected.index[int(np.argmax(differs))]
    return f"{differs.sum():,} of {len(pairs):,} labels differ, first entity {where}: {found} is stored, not {wanted}"


def _equal(found: object, wanted: object) -> bool:
    if isinstance(wanted, tuple):
        return tuple(sorted(found)) == wanted  # type: ignore[call-overload]
    return abs(float(found) - float(wanted)) <= _TOLERANCE  # type: ignore[arg-type]
