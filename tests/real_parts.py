"""Short studies for tests that train for real: on a tiny look-alike, made once per test session, and on noise."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ablate.core.recipe import Recipe
from ablate.core.serialize import to_dict
from ablate.core.study import LoaderOptions, Study, Timing, Training, WorkloadChoice
from ablate.plugins.registry import load_file, make_catalog
from ablate.train.optimizer import Stepper, make_optimizer, make_stepper
from ablate.train.session import Session, open_session
from ablate.workloads.relational.data.graph import Graph, load_graph
from ablate.workloads.relational.options import RelationalOptions
from builders import make_study

TINY = RelationalOptions(dataset="look-alike", scale="tiny", channels=8, num_neighbors=(4, 2), encoder_layers=1)
WORKLOADS = ("hm/user-churn", "hm/item-sales", "hm/user-item-purchase")
OUTSIDE = Path(__file__).parent / "workloads" / "outside.py"
LINE = "my/line"
CPU = torch.device("cpu")


@cache
def tiny_graph() -> Graph:
    """The materialized graph of the tiny look-alike."""
    return load_graph(TINY)


def tiny_study(
    *workloads: str, epochs: int = 2, steps: int = 4, loader: LoaderOptions | None = None, **settings: object
) -> Study:
    """A study that trains for seconds: 8 channels, 16 seeds a batch, one encoder block.

    Args:
        settings: Options of the workloads, and fields of `Training`.
    """
    catalog = make_catalog()
    names = {f.name for f in fields(RelationalOptions)}
    options = replace(TINY, **{name: value for name, value in settings.items() if name in names})  # type: ignore[arg-type]
    training = {"batch_size": 16, "lr": 0.01} | {k: value for k, value in settings.items() if k not in names}
    return replace(
        make_study(),
        compile_backend="aot_eager",
        blocks=1,
        loader=loader or LoaderOptions(),
        workloads=tuple(
            WorkloadChoice(info=catalog.workloads[name], options=to_dict(options))
            for name in workloads or WORKLOADS[:1]
        ),
        timing=Timing(epochs=epochs, steps_per_epoch=steps, horizon_epochs=10),
        training=Training(**training),  # type: ignore[arg-type]
    )


def line_study(**changes: Any) -> Study:
    """A study of the outside workload: 2 epochs of 4 steps, in milliseconds."""
    choice = WorkloadChoice(info=load_file(OUTSIDE).INFO, options={"width": 4}, path=str(OUTSIDE), digest="0" * 64)
    timing = Timing(epochs=2, steps_per_epoch=4, horizon_epochs=10)
    return replace(make_study(workloads=(choice,), timing=timing, training=Training(batch_size=8)), **changes)


def open_line(recipe: Recipe | None = None, **changes: Any) -> Session:
    """A session of that study on the CPU."""
    return open_session(line_study(**changes), LINE, recipe or Recipe(), seed=0, device=CPU)


def metric_of(workload: Any) -> float:
    """The validation metric of a workload's model as it is, on the CPU."""
    return float(workload.score(workload.predict(lambda batch: batch)).value)


def stepper_of(weight: torch.nn.Parameter, recipe: Recipe, training: Training, lr: float, num_steps: int) -> Stepper:
    """The stepper of one weight on the CPU."""
    made = make_optimizer([weight], recipe, training, lr, num_steps, torch.device("cpu"))
    return make_stepper(*made, recipe, lr)
