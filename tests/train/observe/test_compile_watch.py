"""The inductor's trees of CUDA Graphs, grown by torch's own code without a GPU -> recordings, and skips apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch._dynamo import utils as dynamo_utils
from torch._inductor import cudagraph_trees

from ablate.train.observe.compile_watch import count_cudagraphs

FORWARD, BACKWARD = 0, 1


class Node:
    """Stands in for `CUDAGraphNode`, which needs a device; a recording hangs itself into the tree by torch's code."""

    add_child = cudagraph_trees.CUDAGraphNode.add_child

    def __init__(self, *args: Any) -> None:
        self.children: dict[int, list[Node]] = defaultdict(list)

    def run_first_inputs(self, inputs: list[Any]) -> None:
        """Record nothing."""

    run = run_first_inputs


@pytest.fixture
def manager(monkeypatch):
    """A manager of the inductor after three skips; only its trees are real."""
    monkeypatch.setitem(dynamo_utils.counters, "inductor", Counter({"cudagraph_skips": 3}))
    monkeypatch.setattr(cudagraph_trees, "CUDAGraphNode", Node)
    monkeypatch.setattr(cudagraph_trees, "CUDAWarmupNode", type("WarmUp", (Node,), {}))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return MagicMock(roots=defaultdict(list), current_node=None)


def record(manager: Any, function: int) -> None:
    cudagraph_trees.CUDAGraphTreeManager.record_function(manager, [], function)


def test_a_recording_is_a_node_of_the_trees(manager):
    for _ in range(2):
        manager.current_node = None
        record(manager, FORWARD)  # a root
        record(manager, BACKWARD)  # its child
    record(manager, FORWARD)  # a grandchild
    for _ in range(2):  # counting changes nothing
        assert count_cudagraphs(manager) == {"cudagraph_recordings": 5, "cudagraph_skips": 3}


def test_warm_ups_and_skips_are_no_recordings(manager):
    cudagraph_trees.CUDAGraphTreeManager.run_eager(manager, [], FORWARD)
    assert count_cudagraphs(manager) == {"cudagraph_recordings": 0, "cudagraph_skips": 3}


def test_without_a_manager_nothing_was_recorded(manager):
    assert count_cudagraphs(None) == {"cudagraph_recordings": 0, "cudagraph_skips": 3}


def test_torch_names_its_trees_as_the_stand_in_does():
    assert "roots" in cudagraph_trees.CUDAGraphTreeManager.__init__.__code__.co_names
    assert "children" in cudagraph_trees.CUDAGraphNode.__init__.__code__.co_names
