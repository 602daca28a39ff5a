"""Batches at the edge of what can be sampled: recompilations have their guard, losses equal eager's."""

from dataclasses import replace

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.train.probe import try_hazards
from ablate.train.session import open_session
from ablate.workloads.relational.edge_cases import with_nodes
from real_parts import tiny_study

CHURN = "hm/user-churn"
ON = Recipe(execution="compiled", backend="eager", forward_dynamic=True, model={"keys": "string"})
BUYS = "transactions f2p_customer_id customer"


def build(name: str = CHURN, recipe: Recipe = ON):
    return open_session(tiny_study(name), name, recipe, seed=0, device=torch.device("cpu"))


def test_the_batches_have_the_sizes_of_their_names():
    session = build()
    workload, dataset = session.workload, session.dataset
    sizes = {name: workload.sizes(batch) for name, batch, _ in workload.edge_cases(dataset)}
    (zero_edges, one_edge, no_node, one_node, equal, single) = sizes
    assert (zero_edges, one_edge) == (f"0 edges of {BUYS}", f"1 edge of {BUYS}")
    assert (sizes[zero_edges][BUYS], sizes[one_edge][BUYS]) == (0, 1)
    assert (sizes[no_node]["transactions"], sizes[one_node]["transactions"]) == (0, 1)
    assert sizes[no_node][BUYS] == 0
    assert sizes[equal]["transactions"] == sizes[equal]["article"] > 1
    assert sizes[single]["customer"] == 1
    assert workload.sizes(dataset[0])["transactions"] > 1  # the batch itself is unchanged


def test_cut_nodes_take_their_edges_along():
    cut = with_nodes(build().dataset[0], "transactions", 3)
    assert cut["transactions"].tf.num_rows == len(cut["transactions"].time) == 3
    for edge_type in cut.edge_types:
        ends = (edge_type[0], edge_type[2])
        if "transactions" in ends:
            assert (cut[edge_type].edge_index[ends.index("transactions")] < 3).all()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "backend"), [(CHURN, "aot_eager"), ("hm/user-item-purchase", "eager")])
def test_each_recompilation_names_its_guard_and_the_first_loss_is_eagers(name, backend, capsys):
    recipe = replace(ON, backend=backend)
    hazards = try_hazards(build(name, recipe))
    torch._dynamo.reset()
    with capsys.disabled():
        for hazard in hazards:
            guards = "; ".join(f"{e.reason} {dict(e.sizes)}" for e in hazard.events) or "no recompilation"
            print(f"\n{name}: {hazard.name}: loss differs by {hazard.loss_difference:.1e}: {guards}")
    assert all(hazard.loss_difference <= 1e-6 for hazard in hazards)
    assert all(event.reason and event.sizes for hazard in hazards for event in hazard.events)
    if name != CHURN:
        return  # three forwards a step: what the first one meets depends on all three parts
    again = {hazard.name: hazard.events for hazard in hazards}
    edgy = [events for hazard, events in again.items() if hazard.startswith(("0 ", "1 "))]
    assert sum(bool(events) for events in edgy) >= 2  # torch compiles again for sizes 0 and 1, dynamic or not
    equal = next(hazard for hazard in again if hazard.startswith("as many"))
    assert again[equal] and "==" in again[equal][0].reason  # two sizes of the first batch were taken for one
