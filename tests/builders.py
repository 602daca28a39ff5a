"""A few changes -> a hand-built `Study` (five real optimizations, CPU, one workload) for tests of every stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ablate.core.errors import UserError
from ablate.core.optimization import OffMeans, OptimizationInfo
from ablate.core.serialize import to_dict
from ablate.core.study import Equivalence, Factor, LoaderOptions, Study, Timing, Training, WorkloadChoice
from ablate.core.workload import WorkloadInfo
from ablate.optimizations.guide import dynamic_shapes, no_cuda_graphs, string_keys, sync_free, tensor_lr
from ablate.plugins.registry import Catalog
from ablate.workloads.relational.options import RelationalOptions

OPTIMIZATIONS: dict[str, OptimizationInfo] = {
    module.INFO.name: module.INFO for module in (dynamic_shapes, tensor_lr, string_keys, no_cuda_graphs, sync_free)
}
WORKLOADS: dict[str, WorkloadInfo] = {
    info.name: info
    for info in (
        WorkloadInfo(
            name="hm/user-churn",
            title="customer churn",
            metric="roc_auc",
            metric_unit="AUROC (0..1)",
            higher_is_better=True,
            lr=0.005,
            options=RelationalOptions,
            supports=("hetero-keys", "distinct-rows", "replay"),
        ),
        WorkloadInfo(
            name="hm/item-sales",
            title="article sales",
            metric="mae",
            metric_unit="MAE (price units)",
            higher_is_better=False,
            lr=0.005,
            options=RelationalOptions,
            supports=("hetero-keys", "distinct-rows", "replay"),
        ),
        WorkloadInfo(
            name="hm/user-item-purchase",
            title="purchases",
            metric="map",
            metric_unit="MAP@12 (0..1)",
            higher_is_better=True,
            lr=0.001,
            options=RelationalOptions,
            supports=("hetero-keys", "distinct-rows", "replay"),
        ),
    )
}

OPTIONS = to_dict(RelationalOptions(dataset="look-alike", scale="tiny", channels=8, num_neighbors=(4, 2)))


def make_factors(
    names: Iterable[str] = tuple(OPTIMIZATIONS),
    *,
    off_means: OffMeans = "today",
    setting: Literal["both", "on", "off"] = "both",
) -> tuple[Factor, ...]:
    """Build factors for optimizations of the guide, all with one meaning of off and one setting."""
    return tuple(
        Factor(
            info=OPTIMIZATIONS[name],
            off_means=off_means,
            off=OPTIMIZATIONS[name].off_level(off_means),
            on=OPTIMIZATIONS[name].on,
            setting=setting,
        )
        for name in names
    )


def make_workloads(*names: str, **options: Any) -> tuple[WorkloadChoice, ...]:
    """Build workload choices from the three built-in names, small; `options` replace theirs."""
    return tuple(WorkloadChoice(info=WORKLOADS[name], options={**OPTIONS, **options}) for name in names)


def make_study(**changes: Any) -> Study:
    """Build a factorial study of the five optimizations on a CPU; `changes` replace fields of `Study`."""
    study = Study(
        name="test-study",
        question="Which optimization buys the speed-up?",
        claim=None,
        workloads=make_workloads("hm/user-churn"),
        factors=make_factors(),
        compile_step=True,
        compile_backend="eager",
        design="factorial",
        cells=(),
        blocks=2,
        seed=0,
        timing=Timing(epochs=3, steps_per_epoch=4, horizon_epochs=10),
        training=Training(batch_size=16, lr=0.005),
        loader=LoaderOptions(),
        compile_cache="per-cell",
        equivalence=Equivalence(),
        device="cpu",
        num_threads=1,
        trial_timeout_s=600.0,
        tracking_uri=None,
        profile=None,
        spec_path="test-study.yaml",
        spec_text="study: test-study\n",
    )
    return replace(study, **changes)


def make_catalog_of_builtins(*more: WorkloadInfo) -> Catalog:
    """Build a catalog of the five optimizations and three workloads (and more) that knows no outside file."""

    def refuse(path: Path) -> Any:
        raise UserError(f"{path} does not exist")

    workloads = WORKLOADS | {info.name: info for info in more}
    return Catalog(optimizations=OPTIMIZATIONS, workloads=workloads, load_optimization=refuse, load_workload=refuse)
