"""Batches of H&M churn, checked as a trial does and by a plain PyG loader -> what the checksum of every batch costs.

    python -m benchmarks.hashing              pairs of loader passes and of training passes, some four minutes
    python -m benchmarks.hashing --pairs 2    fewer pairs, to see that it works

512 seeds, (128, 64) neighbors, 128 channels, one thread, no workers: nothing hides the checksum. The plain loop shares
sampler, model and loss with ours and nothing else; the order inside a pair alternates, and both see the same batches.
Times are processor seconds of this process (one thread), so that other work on the machine weighs less.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

import numpy as np
import torch
from torch_geometric.loader import NodeLoader

from ablate.analysis.statistics.inference import half_width
from ablate.core.recipe import Recipe
from ablate.core.study import LoaderOptions, Training
from ablate.plugins.registry import find_module
from ablate.train.stream import BatchStream
from ablate.workloads.contract import WorkloadContext, checksum
from ablate.workloads.relational.base import RelationalWorkload
from ablate.workloads.relational.data.sampler import make_sampler
from ablate.workloads.relational.data.stream import Part
from ablate.workloads.relational.options import RelationalOptions

OPTIONS = RelationalOptions(dataset="look-alike", scale="small", channels=128, num_neighbors=(128, 64))
TRAINING = Training(batch_size=512, lr=0.005)
LOADED, TRAINED = 8, 1  # batches of a pass
Checksum = Callable[[Any], int]
Pass = Callable[[Iterable[Any]], None]


def main() -> None:
    """Print what a batch, a step and the checksum take, and both ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    pairs = parser.parse_args().pairs
    torch.set_num_threads(1)
    context = WorkloadContext(options=OPTIONS, training=TRAINING, recipe=Recipe())
    workload = find_module("workloads", "hm/user-churn").build(context)
    plain = PlainLoader(workload)
    checksum_s: list[float] = []
    check = timed(partial(checksum, workload), checksum_s)
    optimizer = torch.optim.Adam(workload.model.parameters(), lr=TRAINING.lr)

    def train(batches: Iterable[Any]) -> None:
        for batch in batches:
            optimizer.zero_grad()
            workload.loss(workload.model, batch).backward()
            optimizer.step()

    load_s = compare("making batches", workload, check, plain, lambda batches: [None for _ in batches], LOADED, pairs)
    step_s = compare("training", workload, check, plain, train, TRAINED, pairs)
    one = median(checksum_s)
    print(f"checksum of a batch: {1000 * one:.2f} ms, {one / load_s:.2%} of making one, {one / step_s:.3%} of a step")
    print(f"it stays below 0.5 % of a step that takes {1000 * one / 0.005:.0f} ms or more")
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores, one "
        f"thread, torch {version('torch')}; load average at the end {os.getloadavg()[0]:.1f}"
    )


class PlainLoader:
    """PyG's own loader over the seeds of a churn workload; nothing of ours but the sampler."""

    def __init__(self, workload: RelationalWorkload) -> None:
        self._data = workload.graph.data
        self._sampler = make_sampler(workload.graph, OPTIONS.num_neighbors)

    def __call__(self, seeds: Part) -> Iterator[Any]:
        """Batches of 512 seeds, in order."""

        def add_target(batch: Any) -> Any:
            batch.seed_type, batch[seeds.node_type].y = seeds.node_type, seeds.target[batch[seeds.node_type].input_id]
            return batch

        loader = NodeLoader(
            self._data, self._sampler, input_nodes=(seeds.node_type, seeds.nodes), input_time=seeds.times,
            transform=add_target, filter_per_worker=True, batch_size=TRAINING.batch_size,
        )  # fmt: skip
        return iter(loader)


def compare(
    name: str,
    workload: RelationalWorkload,
    check: Checksum,
    plain: PlainLoader,
    run: Pass,
    num_batches: int,
    pairs: int,
) -> float:
    """Print ours against the plain loop; returns the plain loop's seconds per batch."""
    ours_s, plain_s = [], []
    for pair in range(pairs + 1):  # the first one warms up
        dataset = workload.batches(num_batches, seed=pair)
        seeds = join([part for index in range(num_batches) for part in dataset._parts(index)])
        if pair == 0:
            check_same(dataset[0], next(plain(seeds)))
        for ours in (True, False) if pair % 2 else (False, True):
            stream = iter(BatchStream(dataset, check, num_batches, LoaderOptions(), pin=False))
            batches = stream if ours else plain(seeds)
            gc.collect()  # else its pauses fall into whichever loop allocates at the right rhythm
            began = time.process_time()
            run(batches)
            (ours_s if ours else plain_s).append(time.process_time() - began)
    logs = np.log(np.array(ours_s[1:]) / np.array(plain_s[1:]))
    center, half = float(logs.mean()), half_width(logs) or 0.0
    per_batch = median(plain_s[1:]) / num_batches
    print(
        f"{name}: {1000 * per_batch:.1f} ms a batch in the plain loop; ours / plain {math.exp(center):.4f} "
        f"[{math.exp(center - half):.4f}, {math.exp(center + half):.4f}] ({pairs} pairs of {num_batches})",
        flush=True,
    )
    return per_batch


def join(parts: list[Part]) -> Part:
    """All seeds of some batches."""
    nodes, times, targets = ([getattr(part, name) for part in parts] for name in ("nodes", "times", "target"))
    return Part(node_type=parts[0].node_type, nodes=torch.cat(nodes), times=torch.cat(times), target=torch.cat(targets))


def check_same(ours: Any, plain: Any) -> None:
    """Refuse to compare loops that see different batches."""
    for name in ours.node_types:
        assert torch.equal(ours[name].n_id, plain[name].n_id), f"{name} differs"
    assert torch.equal(ours[ours.seed_type].y, plain[ours.seed_type].y), "targets differ"


def timed(function: Checksum, seconds: list[float]) -> Checksum:
    """The function, with what each call took appended to `seconds`."""

    def call(batch: Any) -> int:
        began = time.process_time()
        value = function(batch)
        seconds.append(time.process_time() - began)
        return value

    return call


if __name__ == "__main__":
    main()
