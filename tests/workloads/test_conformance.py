"""What every workload must do; a new one inherits these tests by a line in `CASES`."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from ablate.core.recipe import Recipe
from ablate.core.serialize import to_dict
from ablate.core.study import Study, Training, WorkloadChoice
from ablate.core.workload import WorkloadInfo
from ablate.plugins.registry import make_catalog
from ablate.train.session import build_workload
from ablate.workloads.contract import Predicts, Replays, Workload, checksum, pin, sizes, to_device
from builders import make_study
from real_parts import TINY

OUTSIDE = Path(__file__).parent / "outside.py"
CPU = torch.device("cpu")
HM = ("hm/user-churn", "hm/item-sales", "hm/user-item-purchase")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One workload at a size that takes no time.

    Attributes:
        options: Options that make it small, as plain values.
        path: Its file, for a workload that is not installed.
        unused: Beginnings of names of weights that the loss of a batch may leave without a gradient.
        odd: Names of weights whose gradient is not finite, for a reason that is known.
        recipes: Recipes beside the default under which it must give the same batches.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    unused: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    recipes: tuple[Recipe, ...] = ()

    @property
    def info(self) -> WorkloadInfo:
        if self.path is None:
            return make_catalog().workloads[self.name]
        spec = importlib.util.spec_from_file_location(self.path.stem, self.path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.INFO

    def study(self) -> Study:
        path = None if self.path is None else str(self.path)
        options = {**to_dict(self.info.options()), **self.options}
        choice = WorkloadChoice(info=self.info, options=options, path=path)
        return replace(make_study(), workloads=(choice,), training=Training(batch_size=8, lr=0.01))

    def build(self, recipe: Recipe | None = None, seed: int = 0) -> Workload:
        return build_workload(self.study(), self.name, recipe or Recipe(), seed=seed)


CASES = [
    *(
        Case(
            name=name,
            options=to_dict(TINY),
            unused=("gnn.",),  # what leads to no seed
            # a column with missing values: 0 times NaN
            odd=("encoder.encoders.customer.encoder.encoder_dict.numerical.weight",),
            recipes=(Recipe(model={"keys": "string", "rows": "distinct"}),),
        )
        for name in HM
    ),
    Case(
        name="vision/resnet50",
        options={"arch": "resnet18", "image": 32, "classes": 4, "train_images": 64, "validation_images": 60},
        recipes=(Recipe(memory_format="channels-last", autocast="bfloat16"),),
    ),
    Case(name="example/mlp", options={"width": 16, "validation_rows": 100}),
    Case(name="my/line", path=OUTSIDE),
]
every_workload = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def first_batch(workload: Workload, seed: int = 0) -> Any:
    return workload.batches(2, seed)[0]


def one_changed(batch: Any) -> Any:
    """The batch with one element of its last tensor that has any changed."""
    tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, Tensor) and leaf.numel()]
    if not tensors:  # subgraphs
        graph = (batch if isinstance(batch, tuple) else (batch,))[-1]
        edge_type = next(e for e in graph.edge_types if graph[e].edge_index.numel())
        tensors = [graph[edge_type].edge_index]
    tensors[-1].view(-1)[0] += 1
    return batch


def test_every_built_in_workload_has_a_case():
    assert set(make_catalog().workloads) <= {case.name for case in CASES}


@every_workload
def test_its_model_is_a_plain_module_on_the_cpu(case):
    model = case.build().model
    assert isinstance(model, torch.nn.Module) and not isinstance(model, torch._dynamo.OptimizedModule)
    assert {p.device for p in model.parameters()} == {CPU} and model.training
    assert set(getattr(model, "stages", {})) <= {name for name, _ in model.named_modules()}


@every_workload
def test_the_seed_alone_decides_the_initial_weights(case):
    one, same, other = (dict(case.build(seed=seed).model.named_parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@every_workload
def test_an_index_gives_the_same_batch_in_every_build_and_another_seed_gives_others(case):
    workload = case.build()
    dataset = workload.batches(3, 0)
    sums = [checksum(workload, dataset[index]) for index in range(3)]
    assert len(set(sums)) == 3 and len(dataset) == 3
    torch.rand(3)
    assert [checksum(workload, dataset[index]) for index in (2, 1, 0)] == sums[::-1]  # in any order
    for recipe in (Recipe(), *case.recipes):
        again = case.build(recipe, seed=9)
        assert [checksum(again, again.batches(3, 0)[index]) for index in range(3)] == sums
    other = workload.batches(3, 1)
    assert not {checksum(workload, other[index]) for index in range(3)} & set(sums)


SUMS = """
import json, sys
from ablate.core.recipe import Recipe
from ablate.records.store import read_study
from ablate.train.session import build_workload
from ablate.workloads.contract import checksum
from pathlib import Path
study = read_study(Path(sys.argv[1]))
workload = build_workload(study, study.workloads[0].name, Recipe(), seed=5)
dataset = workload.batches(2, 0)
print(json.dumps([checksum(workload, dataset[index]) for index in range(2)]))
"""


@every_workload
def test_another_process_makes_the_same_batches(case, tmp_path):
    from ablate.records.store import write_json

    write_json(tmp_path / "study.json", case.study())
    done = subprocess.run(
        [sys.executable, "-c", SUMS, str(tmp_path / "study.json")], capture_output=True, text=True, check=True
    )
    workload = case.build()
    dataset = workload.batches(2, 0)
    assert json.loads(done.stdout.splitlines()[-1]) == [checksum(workload, dataset[index]) for index in range(2)]


@every_workload
def test_a_replayed_dataset_gives_the_batches_that_it_would_make(case):
    workload = case.build()
    live, kept = workload.batches(2, 0), workload.batches(2, 0)
    assert isinstance(kept, Replays) == ("replay" in case.info.supports)
    if isinstance(kept, Replays):
        assert kept.replay_gib is None
        kept.keep()
        assert kept.replay_gib > 0
        assert [checksum(workload, kept[i]) for i in range(2)] == [checksum(workload, live[i]) for i in range(2)]


@every_workload
def test_the_checksum_sees_one_changed_element(case):
    workload = case.build()
    before = checksum(workload, first_batch(workload))
    assert checksum(workload, one_changed(first_batch(workload))) != before


@every_workload
def test_a_batch_is_copied_and_measured(case):
    workload = case.build()
    batch = first_batch(workload)
    assert checksum(workload, to_device(workload, batch, CPU)) == checksum(workload, batch)
    found = sizes(workload, batch)
    assert found and all(isinstance(name, str) and size >= 0 for name, size in found.items())
    assert workload.num_samples(batch) == 8
    if torch.cuda.is_available():
        assert checksum(workload, pin(batch)) == checksum(workload, batch)


@every_workload
def test_the_loss_is_a_finite_scalar_with_a_gradient_for_every_weight(case):
    workload = case.build()
    loss = workload.loss(workload.model, first_batch(workload))
    assert loss.shape == () and math.isfinite(loss.item())
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in workload.model.named_parameters()}
    assert [n for n, g in gradients.items() if g is None and not n.startswith(case.unused)] == []
    assert [n for n, g in gradients.items() if g is not None and not g.isfinite().all() and n not in case.odd] == []
    used = [g for g in gradients.values() if g is not None and g.abs().sum() > 0]
    assert len(used) > 0.5 * len(gradients)


@every_workload
def test_eager_is_bitwise_reproducible(case):
    losses = []
    for _ in range(2):
        workload = case.build(seed=3)
        torch.manual_seed(4)
        losses.append([workload.loss(workload.model, workload.batches(2, 0)[index]).item() for index in range(2)])
    assert losses[0] == losses[1]


@every_workload
def test_the_model_calls_the_forward_that_it_is_given(case):
    workload, calls = case.build(), []

    def forward(*arguments):
        calls.append(arguments)
        return workload.model(*arguments)

    workload.loss(forward, first_batch(workload))
    assert calls and workload.model.training


@every_workload
def test_it_is_judged_as_it_declares_and_is_left_in_training_mode(case):
    workload = case.build()
    assert isinstance(workload, Predicts) == bool(case.info.metric)
    if not isinstance(workload, Predicts):
        return
    predictions = workload.predict(lambda batch: to_device(workload, batch, CPU))
    metric = workload.score(predictions)
    assert (metric.name, metric.unit, metric.higher_is_better) == (
        case.info.metric,
        case.info.metric_unit,
        case.info.higher_is_better,
    )
    assert math.isfinite(metric.value) and metric.num_rows == len(predictions.values) > 50
    assert len(predictions.columns()["row"]) == predictions.values.size
    assert workload.model.training


@pytest.mark.parametrize("name", HM)
def test_key_style_changes_neither_names_nor_numbers(name):
    case = next(case for case in CASES if case.name == name)
    losses, names = [], []
    for style in ("tuple", "string", "tuple-breaking"):
        workload = case.build(Recipe(model={"keys": style}))
        workload.model.eval()
        names.append(list(workload.model.state_dict()))
        losses.append(workload.loss(workload.model, first_batch(workload)).item())
    assert names[0] == names[1] == names[2] and losses[0] == losses[1] == losses[2]


def test_a_batch_of_any_nesting_has_a_checksum_and_sizes():
    workload: Any = object()
    batch = {"x": [torch.zeros(2, 3), (torch.ones(5, dtype=torch.bool), "text")], "y": torch.tensor(1.0)}
    assert sizes(workload, batch) == {"['x'][0]": 2, "['x'][1][0]": 5}
    changed = {**batch, "y": torch.tensor(2.0)}
    assert checksum(workload, batch) != checksum(workload, changed)
    moved = to_device(workload, batch, torch.device("meta"))
    assert {t.device.type for t in tree_leaves(moved) if isinstance(t, Tensor)} == {"meta"} and moved["x"][1][
        1
    ] == "text"
    assert tree_map_only(Tensor, lambda t: t.shape, moved)["y"] == torch.Size([])
