"""Validation scores against values computed here from the same predictions."""

import numpy as np
import pytest

from ablate.core.recipe import Recipe
from ablate.train.session import build_workload
from real_parts import metric_of, tiny_study


def build(name: str):
    return build_workload(tiny_study(name), name, Recipe(), seed=0)


def test_churn_is_the_share_of_ordered_pairs():
    workload = build("hm/user-churn")
    predictions = workload.predict(lambda batch: batch)
    scores, table = predictions.values, predictions.table
    positive = scores[table.df.churn.to_numpy() == 1]
    negative = scores[table.df.churn.to_numpy() == 0]
    pairs = positive[:, None] - negative[None, :]
    by_hand = ((pairs > 0).sum() + 0.5 * (pairs == 0).sum()) / pairs.size
    assert metric_of(workload) == pytest.approx(by_hand, abs=1e-12)


def test_sales_are_the_absolute_error_over_the_spread_of_the_training_labels():
    workload = build("hm/item-sales")
    predicted = workload.predict(lambda batch: batch)
    predictions, table = predicted.values, predicted.table
    assert predictions.min() >= 0  # sales are never negative
    train = workload.task.get_table("train").df.sales
    by_hand = np.abs(predictions - table.df.sales.to_numpy()).mean() / train.std(ddof=1)
    assert metric_of(workload) == pytest.approx(by_hand, rel=1e-9)


def test_purchases_are_the_mean_average_precision_at_twelve():
    workload = build("hm/user-item-purchase")
    predicted = workload.predict(lambda batch: batch)
    ranked, table = predicted.values, predicted.table
    assert ranked.shape == (len(table.df), 12)
    assert all(len(set(row)) == 12 for row in ranked)
    total = 0.0
    for row, bought in zip(ranked, table.df.article_id, strict=True):
        hits, precision = 0, 0.0
        for position, article in enumerate(row, start=1):
            if article in set(bought):
                hits += 1
                precision += hits / position
        total += precision / min(len(bought), 12)
    assert metric_of(workload) == pytest.approx(total / len(table.df), abs=1e-12)
