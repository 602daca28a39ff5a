"""Encoding each distinct row once gives the numbers of encoding every row, where no dropout is drawn."""

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.optimizations.beyond import encode_unique
from ablate.plugins.registry import apply_of
from ablate.train.session import build_workload
from real_parts import WORKLOADS, metric_of, tiny_study


def build(name: str, level: str, dropout: float = 0.0):
    recipe = apply_of(encode_unique)(Recipe(), level)
    workload = build_workload(tiny_study(name, dropout=dropout), name, recipe, seed=0)
    return workload, workload.batches(1, 0)[0]


def parts(batch):
    return batch if isinstance(batch, tuple) else (batch,)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_gathered_rows_are_the_rows_of_every_node(name):
    (workload, every), (_, distinct) = build(name, "every"), build(name, "distinct")
    assert workload.checksum(every) == workload.checksum(distinct)
    for full, unique in zip(parts(every), parts(distinct), strict=True):
        for node_type in full.node_types:
            assert torch.equal(full[node_type].n_id, unique[node_type].n_id)
            assert unique[node_type].tf.num_rows == len(set(full[node_type].n_id.tolist()))
            assert unique[node_type].tf[unique[node_type].row_of] == full[node_type].tf
    assert any(
        u[t].tf.num_rows < f[t].tf.num_rows
        for f, u in zip(parts(every), parts(distinct), strict=True)
        for t in f.node_types
    )


@pytest.mark.parametrize("name", WORKLOADS)
def test_loss_and_gradients_agree_without_dropout(name):
    losses, gradients = [], []
    for level in ("every", "distinct"):
        workload, batch = build(name, level)
        loss = workload.loss(workload.model, batch)
        loss.backward()
        losses.append(loss.item())
        gradients.append({n: p.grad for n, p in workload.model.named_parameters() if p.grad is not None})
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert gradients[0].keys() == gradients[1].keys()
    # pytorch-frame's LinearEncoder gives the weight of a column with missing values a NaN gradient (0 times NaN)
    missing = {key for key, gradient in gradients[0].items() if gradient.isnan().any()}
    assert missing == {key for key, gradient in gradients[1].items() if gradient.isnan().any()}
    assert missing <= {"encoder.encoders.customer.encoder.encoder_dict.numerical.weight"}
    for key, gradient in gradients[0].items():
        if key in missing:
            continue
        assert float((gradient - gradients[1][key]).norm()) <= 1e-5 * float(gradient.norm()) + 1e-9


def test_with_dropout_the_training_differs():
    losses = []
    for level in ("every", "distinct"):
        workload, batch = build("hm/user-churn", level, dropout=0.5)
        torch.manual_seed(1)
        losses.append(workload.loss(workload.model, batch).item())
    assert losses[0] != pytest.approx(losses[1], rel=1e-6)  # which is why its numerics are declared `training`
    assert encode_unique.INFO.numerics == "training"


def test_validation_works_too():
    values = [metric_of(build("hm/user-churn", level)[0]) for level in ("every", "distinct")]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
