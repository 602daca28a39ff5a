"""A RelBench task and a split -> seeds: entities, times in seconds and labels as tensors, checked for visibility.

Shapes: N rows of the label table.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.core.errors import UserError
from ablate.workloads.relational.data.graph import Graph
from ablate.workloads.relational.data.source import to_unix_seconds

MIN_VISIBLE_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Rows of one label table.

    Attributes:
        node_type: Type of the seed nodes.
        nodes: Node ids, int64 (N,).
        times: Seed times in seconds, int64 (N,).
        targets: Labels, float32 (N,); None for link tasks.
        offsets: CSR offsets of the destination lists, int64 (N + 1,); None for entity tasks.
        destinations: Destination ids of all rows in one array, int64.
    """

    node_type: str
    nodes: Tensor
    times: Tensor
    targets: Tensor | None = None
    offsets: Tensor | None = None
    destinations: Tensor | None = None

    def __len__(self) -> int:
        return len(self.nodes)


def load_task(graph: Graph, name: str) -> Any:
    """Load a task of the graph's dataset (`relbench.base.EntityTask` or `RecommendationTask`).

    Raises:
        UserError: the dataset has no such task.
    """
    try:
        return graph.dataset.load_task(name)
    except ValueError as error:
        raise UserError(str(error)) from error


def load_table(task: Any, split: str, num_rows: int | None = None) -> Any:
    """Load a split's label table with labels, thinned evenly to `num_rows` rows when it has more."""
    table = task.get_table(split, mask_input_cols=False)
    if num_rows is not None and len(table.df) > num_rows:
        keep = np.linspace(0, len(table.df) - 1, num_rows).astype(int)
        table.df = table.df.iloc[keep].reset_index(drop=True)
    return table


def entity_seeds(task: Any, table: Any) -> Seeds:
    """Turn the label table of an entity task into seeds with targets."""
    frame = table.df
    return Seeds(
        node_type=task.entity_table,
        nodes=torch.from_numpy(frame[task.entity_col].to_numpy(dtype=np.int64, copy=True)),
        times=torch.from_numpy(to_unix_seconds(frame[task.time_col], f"labels of {task.name}")),
        targets=torch.from_numpy(frame[task.target_col].to_numpy(dtype=np.float32, copy=True)),
    )


def link_seeds(task: Any, table: Any) -> Seeds:
    """Turn the label table of a recommendation task into seeds with destination lists."""
    frame = table.df
    lists = [np.asarray(item, dtype=np.int64) for item in frame[task.dst_entity_col]]
    offsets = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(item) for item in lists], out=offsets[1:])
    return Seeds(
        node_type=task.src_entity_table,
        nodes=torch.from_numpy(frame[task.src_entity_col].to_numpy(dtype=np.int64, copy=True)),
        times=torch.from_numpy(to_unix_seconds(frame[task.time_col], f"labels of {task.name}")),
        offsets=torch.from_numpy(offsets),
        destinations=torch.from_numpy(np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)),
    )


def permute_labels(seeds: Seeds, seed: int) -> Seeds:
    """Return the seeds with labels shuffled among rows: a model that still beats a constant would be a leak."""
    order = torch.randperm(len(seeds), generator=torch.Generator().manual_seed(seed))
    if seeds.targets is not None:
        return replace(seeds, targets=seeds.targets[order])
    assert seeds.offsets is not None and seeds.destinations is not None
    lists = [seeds.destinations[seeds.offsets[i] : seeds.offsets[i + 1]] for i in order.tolist()]
    offsets = torch.zeros(len(lists) + 1, dtype=torch.int64)
    offsets[1:] = torch.tensor([len(item) for item in lists]).cumsum(0)
    return replace(seeds, offsets=offsets, destinations=torch.cat(lists))


def check_visible(graph: Graph, seeds: Seeds, what: str) -> float:
    """Return the share of (latest seed time, dated row) pairs that the seeds can see; refuse next to nothing.

    Labels in the wrong time unit see no neighbor at all, and training goes on without an error.

    Raises:
        UserError: fewer than 1 % of the dated rows lie at or before the median seed time.
    """
    moment = seeds.times.median()
    dated = [graph.data[name].time for name in graph.data.node_types if "time" in graph.data[name]]
    total = sum(len(time) for time in dated)
    visible = sum(int((time <= moment).sum()) for time in dated)
    share = visible / total if total else 1.0
    if share < MIN_VISIBLE_SHARE:
        raise UserError(
            f"{what}: the seeds see {visible} of {total} dated rows (median seed time {int(moment)} s); "
            "the labels' time unit is probably wrong"
        )
    return share
