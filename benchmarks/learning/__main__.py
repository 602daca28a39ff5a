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

import numpy as np
import torch

from ablate.core.recipe import Recipe
from ablate.core.registry import make_catalog
from ablate.core.study import Study, Timing
from ablate.data.graph import Graph, load_graph
from ablate.data.stream import stream_generator
from ablate.spec.reader import read_study
from ablate.train.session import Session, build_workload, open_session
from benchmarks.learning.constants import auroc_interval, global_top, median_error

CPU = torch.device("cpu")
SPEC = Path(__file__).parent / "learning.yaml"
EPOCHS = {"hm/user-churn": 4, "hm/item-sales": 4, "hm/user-item-purchase": 12}


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
    graph = load_graph(study.data)
    began = time.perf_counter()
    lines = []
    for choice in study.workloads:
        if arguments.task and choice.name not in arguments.task:
            continue
        lines.append(check_times(study, choice.name, graph))
        lines += [train(study, choice.name, graph, label_seed) for label_seed in (None, 1)]
    print(f"{'task':<24}{'labels':<12}{'trained model':<34}{'obvious constant':<30}as it must be")
    for line in lines:
        print(f"{line.task:<24}{line.labels:<12}{line.score:<34}{line.constant:<30}{'yes' if line.passed else 'NO'}")
    print(f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.processor() or platform.machine()}, {torch.get_num_threads()} "
          f"threads, torch {torch.__version__}, {time.perf_counter() - began:.0f} s, look-alike {study.data.scale}")
    return 0 if all(line.passed for line in lines) else 1


def check_times(study: Study, name: str, graph: Graph) -> Line:
    """Sample one full epoch of a task; every dated row must lie at or before its seed time."""
    workload = build_workload(study, name, graph, Recipe(), seed=0)
    num_batches = workload.num_train_rows // study.training.batch_size
    dataset = workload.train_dataset(num_batches, stream_generator(0), replay=False)
    num_rows = num_late = 0
    for index in range(num_batches):
        batch = dataset[index]
        for part in batch if isinstance(batch, tuple) else (batch,):
            dated = part["transactions"]
            num_rows += len(dated.time)
            num_late += int((dated.time > part[part.seed_type].seed_time[dated.batch]).sum())
    return Line(task=name, labels="-", score=f"{num_late} of {num_rows:,} rows late",
                constant=f"one epoch, {num_batches} batches", passed=num_late == 0 and num_rows > 0)


def train(study: Study, name: str, graph: Graph, label_seed: int | None) -> Line:
    """Train one task eagerly and compare its validation score with the constant's."""
    timing = Timing(epochs=EPOCHS[name], steps_per_epoch=study.timing.steps_per_epoch, horizon_epochs=10)
    session = open_session(replace(study, timing=timing), name, graph, Recipe(metric_policy="on-device"), seed=0,
                           device=CPU, label_seed=label_seed)
    session.train()
    value = session.workload.evaluate(lambda batch: batch).value
    score, constant, better = SCORERS[name](session, value)
    passed = better if label_seed is None else not better
    return Line(task=name, labels="own" if label_seed is None else "permuted", score=score, constant=constant,
                passed=passed)


def score_churn(session: Session, value: float) -> tuple[str, str, bool]:
    """The AUROC is better than a constant when its whole interval lies above one half."""
    labels = session.workload._task.get_table("val").df.churn.to_numpy()  # type: ignore[attr-defined]
    low, high = auroc_interval(value, int(labels.sum()), int((1 - labels).sum()))
    return f"AUROC {value:.4f} [{low:.4f}, {high:.4f}]", "0.5", low > 0.5


def score_sales(session: Session, value: float) -> tuple[str, str, bool]:
    """The error is better than a constant when it is below that of the training median, by 2 % of it at least."""
    task = session.workload._task  # type: ignore[attr-defined]
    train_sales, validation = (task.get_table(split).df.sales.to_numpy() for split in ("train", "val"))
    constant = median_error(train_sales, validation, task.nmae_std)
    return f"NMAE {value:.4f} (MAE {value * task.nmae_std:.4f})", f"train median {constant:.4f}", value < 0.98 * constant


def score_purchases(session: Session, value: float) -> tuple[str, str, bool]:
    """MAP@12 is better than a constant when it is above that of the all-time top twelve."""
    task = session.workload._task  # type: ignore[attr-defined]
    table = task.get_table("val")
    top = global_top(list(task.get_table("train").df.article_id), task.eval_k)
    constant = float(task.evaluate(np.tile(top, (len(table.df), 1)), table)["map"])
    return f"MAP@12 {value:.4f}", f"global top 12 {constant:.4f}", value > constant


SCORERS = {"hm/user-churn": score_churn, "hm/item-sales": score_sales, "hm/user-item-purchase": score_purchases}

if __name__ == "__main__":
    sys.exit(main())
