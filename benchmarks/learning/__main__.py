"""Three tasks on the `small` look-alike -> a table: trained model, obvious constant, model on permuted labels.

    python -m benchmarks.learning            about 15 minutes on two cores; exits 1 when a line fails

Also walks a full epoch of each task and checks that no sampled transaction is later than its seed.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ablate.core.recipe import Recipe
from ablate.core.study import Study, Timing
from ablate.plugins.registry import make_catalog
from ablate.spec.reader import read_study
from ablate.train.session import Session, build_workload, open_session
from benchmarks.learning.constants import global_top, mean_interval, median_error

Score = tuple[str, str, bool, bool]  # score and constant in words; better than the constant; no better than it
CPU = torch.device("cpu")
SPEC = Path(__file__).parent / "learning.yaml"
EPOCHS = {"hm/user-churn": 4, "hm/item-sales": 3, "hm/user-item-purchase": 8}
SEEDS = {"hm/user-churn": 6, "hm/item-sales": 3, "hm/user-item-purchase": 2}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the result: what was measured, against what, and whether it is as it must be."""

    task: str
    labels: str
    score: str
    constant: str
    passed: bool


def main() -> int:
    """Print the table; 0 when every line passes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="only this workload (can be repeated)")
    arguments = parser.parse_args()
    study = read_study(SPEC, catalog=make_catalog(), device="cpu")
    began = time.perf_counter()
    lines = []
    for choice in study.workloads:
        if arguments.task and choice.name not in arguments.task:
            continue
        lines.append(check_times(study, choice.name))
        lines += [train(study, choice.name, permuted=permuted) for permuted in (False, True)]
    print(f"{'task':<24}{'labels':<12}{'trained model (seeds)':<36}{'obvious constant':<30}as it must be")
    for line in lines:
        print(f"{line.task:<24}{line.labels:<12}{line.score:<36}{line.constant:<30}{'yes' if line.passed else 'NO'}")
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__}, {time.perf_counter() - began:.0f} s, "
        f"look-alike {study.workloads[0].options['scale']}"
    )
    return 0 if all(line.passed for line in lines) else 1


def check_times(study: Study, name: str) -> Line:
    """Sample one full epoch of a task; every dated row must lie at or before its seed time."""
    workload: Any = build_workload(study, name, Recipe(), seed=0)
    num_batches = workload.num_train_rows // study.training.batch_size
    dataset = workload.batches(num_batches, 0)
    num_rows = num_late = 0
    for index in range(num_batches):
        batch = dataset[index]
        for part in batch if isinstance(batch, tuple) else (batch,):
            dated = part["transactions"]
            num_rows += len(dated.time)
            num_late += int((dated.time > part[part.seed_type].seed_time[dated.batch]).sum())
    return Line(
        task=name,
        labels="-",
        score=f"{num_late} of {num_rows:,} rows late",
        constant=f"one epoch, {num_batches} batches",
        passed=num_late == 0 and num_rows > 0,
    )


def train(study: Study, name: str, *, permuted: bool) -> Line:
    """Train one task eagerly with several seeds and compare its validation scores with the constant's.

    On permuted labels a single model can score well by luck: its noise is a smooth function of activity, and so is
    the truth. Hence several permutations, and an interval over them.
    """
    timing = Timing(epochs=EPOCHS[name], steps_per_epoch=study.timing.steps_per_epoch, horizon_epochs=10)
    choice, values = study.workload(name), []
    for seed in range(SEEDS[name]):
        options = {**choice.options, "label_seed": seed + 1 if permuted else None}
        own = replace(study, timing=timing, workloads=(replace(choice, options=options),))
        session = open_session(own, name, Recipe(metric_policy="on-device"), seed=seed, device=CPU)
        session.train()
        workload: Any = session.workload
        values.append(workload.score(session.predict()).value)
    score, constant, better, no_better = SCORERS[name](session, np.array(values))
    return Line(
        task=name,
        labels="permuted" if permuted else "own",
        score=score,
        constant=constant,
        passed=no_better if permuted else better,
    )


def score_churn(session: Session, values: np.ndarray) -> Score:
    """The AUROC is better when its whole interval lies above one half, no better when the interval covers one half
    and stays below .6, far under what the labels themselves give.
    """
    low, high = mean_interval(values)
    return f"AUROC {values.mean():.4f} [{low:.4f}, {high:.4f}]", "0.5", low > 0.5, low <= 0.5 <= high < 0.6


def score_sales(session: Session, values: np.ndarray) -> Score:
    """The error is better when it is below that of the training median for every seed, no better when for none."""
    task = session.workload.task  # type: ignore[attr-defined]
    train_sales, validation = (task.get_table(split).df.sales.to_numpy() for split in ("train", "val"))
    constant = median_error(train_sales, validation, task.nmae_std)
    better = values < constant
    return f"NMAE {_span(values)}", f"train median {constant:.4f}", bool(better.all()), not better.any()


def score_purchases(session: Session, values: np.ndarray) -> Score:
    """MAP@12 is better when it is above that of the all-time top twelve for every seed, no better when for none."""
    task = session.workload.task  # type: ignore[attr-defined]
    table = task.get_table("val")
    top = global_top(list(task.get_table("train").df.article_id), task.eval_k)
    constant = float(task.evaluate(np.tile(top, (len(table.df), 1)), table)["map"])
    better = values > constant
    return f"MAP@12 {_span(values)}", f"global top 12 {constant:.4f}", bool(better.all()), not better.any()


def _span(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ({values.min():.4f} to {values.max():.4f})"


SCORERS = {"hm/user-churn": score_churn, "hm/item-sales": score_sales, "hm/user-item-purchase": score_purchases}

if __name__ == "__main__":
    sys.exit(main())
