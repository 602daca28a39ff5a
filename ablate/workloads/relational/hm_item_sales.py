"""rel-hm -> how much will an article sell in the next seven days? (regression, NMAE)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.core.workload import WorkloadInfo

if TYPE_CHECKING:
    from ablate.workloads.contract import Workload, WorkloadContext

INFO = WorkloadInfo(
    name="hm/item-sales",
    title="H&M item sales",
    task="item-sales",
    metric="nmae",
    metric_unit="MAE / sd of the training labels",
    higher_is_better=False,
    reference_lr=0.005,
)


def build(context: WorkloadContext) -> Workload:
    """Build the model and batches of the task; sales are never negative."""
    from torch.nn.functional import l1_loss

    from ablate.workloads.relational.entity import EntityWorkload

    return EntityWorkload(context, INFO, l1_loss, clamp=lambda predictions: predictions.clip(min=0))
