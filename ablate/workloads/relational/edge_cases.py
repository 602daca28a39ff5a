"""A sampled batch -> batches at the edge of what can be sampled, which a compiler may compile again for.

Sizes 0 and 1, two sizes that are equal by chance and a last batch of one seed are what `dynamic=True` still compiles
again for, since torch specializes on 0 and 1 and takes equal sizes of the first batch for one size.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ablate.workloads.relational.data.stream import Parts


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


def one_seed(parts: Parts) -> Parts:
    """The first parts, cut to one seed each."""
    cut = tuple(
        replace(p, nodes=p.nodes[:1], times=p.times[:1], target=None if p.target is None else p.target[:1])
        for p in parts(0)
    )
    return lambda _: cut


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
    return int(graph[node_type].n_id.numel())


def _exchange(batch: Any, first: Any) -> Any:
    return (first, *batch[1:]) if isinstance(batch, tuple) else first
