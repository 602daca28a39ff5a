"""Training labels -> the obvious constant of each task and its score on the validation rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import stats


def mean_interval(values: np.ndarray) -> tuple[float, float]:
    """95 % t-interval of the mean of independent seeds, values of shape (seeds,)."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def median_error(train: np.ndarray, validation: np.ndarray, spread: float) -> float:
    """NMAE of predicting the training median for every row."""
    return float(np.abs(validation - np.median(train)).mean() / spread)


def global_top(train_lists: list[np.ndarray], k: int) -> np.ndarray:
    """The k destinations that occur in most training rows."""
    counts = Counter(int(item) for row in train_lists for item in row)
    return np.array([item for item, _ in counts.most_common(k)])
