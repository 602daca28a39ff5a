"""Names that a spec may use -> what stands behind them (optimizations and workloads, without importing torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ablate.core.optimization import OptimizationInfo


@dataclass(frozen=True, kw_only=True)
class WorkloadInfo:
    """What a workload declares about itself.

    Attributes:
        name: Key in the spec, e.g. `hm/user-churn`.
        title: Short human name.
        task: RelBench task it trains on.
        metric: Name of the validation metric.
        metric_unit: Unit of the metric, e.g. `AUROC (0..1)`.
        higher_is_better: Direction of the metric.
        reference_lr: Learning rate of RelBench's own script, used when the spec gives none.
    """

    name: str
    title: str
    task: str
    metric: str
    metric_unit: str
    higher_is_better: bool
    reference_lr: float


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Everything a spec can name: built-in and installed entries, and loaders for `path/to/file.py` entries.

    The loaders raise `UserError` with one sentence when the file is missing or has no INFO.
    """

    optimizations: Mapping[str, OptimizationInfo]
    workloads: Mapping[str, WorkloadInfo]
    load_optimization: Callable[[Path], OptimizationInfo]
    load_workload: Callable[[Path], WorkloadInfo]
