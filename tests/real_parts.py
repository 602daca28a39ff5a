"""A tiny look-alike, its graph and a short study on it, made once per test session for tests that train for real."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ablate.core.study import DataSource, LoaderOptions, Study, Timing, Training, WorkloadChoice
from ablate.plugins.catalog import make_catalog
from ablate.workloads.relational.data.graph import Graph, load_graph
from builders import make_study

TINY = DataSource(dataset="look-alike", scale="tiny")
WORKLOADS = ("hm/user-churn", "hm/item-sales", "hm/user-item-purchase")


@cache
def tiny_graph() -> Graph:
    """The materialized graph of the tiny look-alike."""
    return load_graph(TINY)


def tiny_study(
    *workloads: str, epochs: int = 2, steps: int = 4, loader: LoaderOptions | None = None, **training: object
) -> Study:
    """A study that trains for seconds: 8 channels, 16 seeds a batch, one encoder block."""
    catalog = make_catalog()
    settings: dict[str, object] = {
        "channels": 8,
        "num_neighbors": (4, 2),
        "batch_size": 16,
        "encoder_layers": 1,
        "lr": 0.01,
        **training,
    }
    return replace(
        make_study(),
        data=TINY,
        compile_backend="aot_eager",
        blocks=1,
        loader=loader or LoaderOptions(),
        workloads=tuple(WorkloadChoice(info=catalog.workloads[name]) for name in workloads or WORKLOADS[:1]),
        timing=Timing(epochs=epochs, steps_per_epoch=steps, horizon_epochs=10),
        training=Training(**settings),  # type: ignore[arg-type]
    )
