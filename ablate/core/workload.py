"""What a workload declares about itself -> pure data that spec, design and analysis can use without torch."""

from __future__ import annotations

from dataclasses import dataclass


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
