"""Link seeds -> batches of (customer, bought article, shared negatives) that share one seed time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ablate.workloads.relational.data.labels import Seeds
from ablate.workloads.relational.data.stream import Part, Parts


@dataclass(frozen=True, kw_only=True)
class LinkBatches:
    """What the link batches of a stream are made of.

    Attributes:
        rows: Label rows, int64 (num_batches, batch_size); all rows of a batch have the same seed time.
        positives: One destination per row, int64 (num_batches, batch_size).
        negatives: Random destinations shared by the batch, int64 (num_batches, batch_size).
    """

    rows: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray


def draw_link_batches(
    seeds: Seeds, num_destinations: int, batch_size: int, num_batches: int, generator: np.random.Generator
) -> LinkBatches:
    """Draw batches as RelBench's recommendation script does: one seed time, one random positive a row.

    Seed times with fewer rows than a batch are skipped unless all have fewer; then the batch shrinks to the largest.
    """
    assert seeds.offsets is not None and seeds.destinations is not None
    offsets, destinations = seeds.offsets.numpy(), seeds.destinations.numpy()
    groups = [np.flatnonzero(seeds.times.numpy() == moment) for moment in np.unique(seeds.times.numpy())]
    size = min(batch_size, max(len(group) for group in groups))
    batches: list[np.ndarray] = []
    while len(batches) < num_batches:
        one_pass = []
        for group in groups:
            whole = len(group) // size
            one_pass += list(generator.permutation(group)[: whole * size].reshape(whole, size))
        batches += [one_pass[i] for i in generator.permutation(len(one_pass))]
    rows = np.stack(batches[:num_batches])
    counts = offsets[rows + 1] - offsets[rows]
    picks = offsets[rows] + (generator.random(rows.shape) * counts).astype(np.int64)
    return LinkBatches(
        rows=rows,
        positives=destinations[picks],
        negatives=generator.integers(0, num_destinations, size=rows.shape, dtype=np.int64),
    )


def link_parts(seeds: Seeds, destination_type: str, batches: LinkBatches) -> Parts:
    """Parts of a link batch: source subgraph, positive destinations, negative destinations, at the row's time."""

    def parts(index: int) -> tuple[Part, ...]:
        rows = torch.from_numpy(batches.rows[index])
        times = seeds.times[rows]
        return (
            Part(node_type=seeds.node_type, nodes=seeds.nodes[rows], times=times),
            Part(node_type=destination_type, nodes=torch.from_numpy(batches.positives[index]), times=times),
            Part(node_type=destination_type, nodes=torch.from_numpy(batches.negatives[index]), times=times),
        )

    return parts
