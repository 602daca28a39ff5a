"""A workload -> batches at the edge of what can be sampled, and what the compiled forward makes of them.

Sizes 0 and 1, two sizes that are equal by chance and a last batch of one seed are what `dynamic=True` still compiles
again for, since torch specializes on 0 and 1 and takes equal sizes of the first batch for one size.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ablate.core.recipe import Recipe
from ablate.core.request import Hazard
from ablate.train.observe.compile_watch import CompileWatch, batch_sizes
from ablate.train.session import compile_forward
from ablate.workloads.contract import Workload

DRAWS = 7


def try_hazards(workload: Workload, recipe: Recipe, dataset: Any, to_device: Callable[[Any], Any]) -> list[Hazard]:
    """Compile anew for each hazard and report the compilations that it causes after (or before) an ordinary batch.

    Args:
        workload: Its first sampled graph is changed; a tuple keeps its other parts.
        recipe: How the forward is compiled.
        dataset: Batches of the workload; two are used.
        to_device: Copies a batch.
    """
    ordinary = dataset[1]
    found = []
    for name, batch, comes_first in edge_cases(dataset[0], one_seed(workload)):
        torch._dynamo.reset()
        watch = CompileWatch()
        forward = compile_forward(workload.model, recipe)
        order = [batch, ordinary] if comes_first else [ordinary, batch]
        differences = []
        for index, current in enumerate(order):
            moved = to_device(current)
            compiled, eager = (_loss(workload, run, moved) for run in (forward, workload.model))
            differences.append(abs(compiled - eager) / max(abs(eager), 1e-12))
            watch.note(index, "forward", current)
        events = tuple(e for e in watch.collect(compiled=True).events if e.step == 1)
        found.append(Hazard(name=name, sizes=batch_sizes(batch), loss_difference=max(differences), events=events))
    return found


def edge_cases(batch: Any, single: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, batch, whether it must come first).

    Args:
        batch: An ordinary batch.
        single: A batch of one seed.
    """
    graph = batch[0] if isinstance(batch, tuple) else batch
    edge_type = max(graph.edge_types, key=lambda e: graph[e].edge_index.size(1))
    others = [name for name in graph.node_types if name != graph.seed_type]
    node_type = max(others, key=lambda name: _num_nodes(graph, name))
    for count, word in ((0, "0 edges"), (1, "1 edge")):
        yield f"{word} of {' '.join(edge_type)}", _exchange(batch, with_edges(graph, edge_type, count)), False
    for count, word in ((0, "0 nodes"), (1, "1 node")):
        yield f"{word} of {node_type}", _exchange(batch, with_nodes(graph, node_type, count)), False
    fewest = min(others, key=lambda name: _num_nodes(graph, name))
    if fewest != node_type:
        size = _num_nodes(graph, fewest)
        name = f"as many {node_type} as {fewest} ({size}) in the first batch"
        yield name, _exchange(batch, with_nodes(graph, node_type, size)), True
    yield "last batch of one seed", single, False


def one_seed(workload: Workload) -> Any:
    """A batch of the workload's first training parts, cut to one seed each."""
    from dataclasses import replace

    import numpy as np

    from ablate.workloads.relational.data.stream import BatchDataset

    parts = workload.train_parts(1, np.random.default_rng(0))(0)
    cut = tuple(
        replace(p, nodes=p.nodes[:1], times=p.times[:1], target=None if p.target is None else p.target[:1])
        for p in parts
    )
    return BatchDataset(workload.subgraphs, lambda _: cut, 1)[0]


def with_edges(graph: Any, edge_type: Any, count: int) -> Any:
    """The graph with only the first `count` edges of a type."""
    changed = copy.copy(graph)
    changed[edge_type].edge_index = graph[edge_type].edge_index[:, :count]
    return changed


def with_nodes(graph: Any, node_type: str, count: int) -> Any:
    """The graph with only the first `count` nodes of a type, and no edge to or from the others."""
    changed = copy.copy(graph)
    before = _num_nodes(graph, node_type)
    for key, value in list(graph[node_type].items()):
        if key == "num_nodes":
            changed[node_type].num_nodes = count
        elif isinstance(value, Tensor) and value.dim() and value.size(0) == before:
            changed[node_type][key] = value[:count]
        elif key == "tf" and value.num_rows == before:
            changed[node_type].tf = value[:count]
    for edge_type in graph.edge_types:
        index = graph[edge_type].edge_index
        kept = torch.ones(index.size(1), dtype=torch.bool)
        for end, name in ((0, edge_type[0]), (1, edge_type[2])):
            if name == node_type:
                kept &= index[end] < count
        changed[edge_type].edge_index = index[:, kept]
    return changed


def _num_nodes(graph: Any, node_type: str) -> int:
    return batch_sizes(graph)[node_type]


def _exchange(batch: Any, first: Any) -> Any:
    return (first, *batch[1:]) if isinstance(batch, tuple) else first


def _loss(workload: Workload, forward: Any, batch: Any) -> float:
    """Loss with the gradient taken, as in a training step; the dropout masks of every call are the same."""
    torch.manual_seed(DRAWS)
    loss = workload.loss(forward, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    workload.model.zero_grad(set_to_none=True)
    return float(loss.detach())
