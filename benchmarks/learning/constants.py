"""Training labels -> the obvious constant of each task and its score on the validation rows."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np


def auroc_interval(auroc: float, num_positive: int, num_negative: int) -> tuple[float, float]:
    """95 % interval of an AUROC by the standard error of Hanley and McNeil (1982)."""
    q1 = auroc / (2 - auroc)
    q2 = 2 * auroc**2 / (1 + auroc)
    variance = (auroc * (1 - auroc) + (num_positive - 1) * (q1 - auroc**2) + (num_negative - 1) * (q2 - auroc**2)) / (
        num_positive * num_negative)
    half = 1.96 * math.sqrt(variance)
    return auroc - half, auroc + half


def median_error(train: np.ndarray, validation: np.ndarray, spread: float) -> float:
    """NMAE of predicting the training median for every row."""
    return float(np.abs(validation - np.median(train)).mean() / spread)


def global_top(train_lists: list[np.ndarray], k: int) -> np.ndarray:
    """The k destinations that occur in most training rows."""
    counts = Counter(int(item) for row in train_lists for item in row)
    return np.array([item for item, _ in counts.most_common(k)])
