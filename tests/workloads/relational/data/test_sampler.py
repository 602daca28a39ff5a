"""The native temporal sampler on a graph of six rows that was sampled by hand."""

import gc

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.sampler import NodeSamplerInput

from ablate.core.errors import UserError
from ablate.workloads.relational.data.sampler import NativeSampler

EDGE = ("sale", "by", "customer")


def make_graph() -> HeteroData:
    """Two customers; customer 0 bought at 10, 20, 30, 40 (sales 3, 1, 0, 2), customer 1 at 15 (sale 4)."""
    data = HeteroData()
    data["customer"].num_nodes = 2
    data["sale"].num_nodes = 5
    data["sale"].time = torch.tensor([30, 20, 40, 10, 15])
    data[EDGE].edge_index = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 0, 1]])
    return data


def sample(sampler: NativeSampler, nodes: list[int], times: list[int]):
    return sampler.sample_from_nodes(
        NodeSamplerInput(
            input_id=torch.arange(len(nodes)), node=torch.tensor(nodes), time=torch.tensor(times), input_type="customer"
        )
    )


def test_takes_the_most_recent_rows_at_or_before_the_seed_time():
    out = sample(NativeSampler(make_graph(), [2]), [0], [30])
    assert sorted(out.node["sale"].tolist()) == [0, 1]  # times 30 and 20; 40 lies ahead, 10 is older


def test_each_seed_has_its_own_subgraph():
    out = sample(NativeSampler(make_graph(), [4]), [0, 0, 1], [10, 40, 20])
    by_seed = {seed: sorted(out.node["sale"][out.batch["sale"] == seed].tolist()) for seed in range(3)}
    assert by_seed == {0: [3], 1: [0, 1, 2, 3], 2: [4]}
    assert out.node["customer"].tolist() == [0, 0, 1]
    assert out.batch["customer"].tolist() == [0, 1, 2]


def test_a_seed_before_everything_sees_nothing():
    out = sample(NativeSampler(make_graph(), [4]), [0], [5])
    assert out.node["sale"].tolist() == []
    assert out.row[EDGE].tolist() == out.col[EDGE].tolist() == []


def test_borrowed_arrays_outlive_the_graph():
    data = make_graph()
    sampler = NativeSampler(data, [4])
    del data
    gc.collect()
    assert sorted(sample(sampler, [0], [40]).node["sale"].tolist()) == [0, 1, 2, 3]


def test_two_samplers_agree():
    first, second = (sample(NativeSampler(make_graph(), [2]), [0, 1], [35, 35]) for _ in range(2))
    assert torch.equal(first.node["sale"], second.node["sale"])
    assert torch.equal(first.row[EDGE], second.row[EDGE])


def test_refuses_link_sampling():
    with pytest.raises(UserError, match="nodes"):
        NativeSampler(make_graph(), [2]).sample_from_edges(None)
