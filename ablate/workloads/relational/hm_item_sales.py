"""rel-hm -> how much will an article sell in the next seven days? (regression, NMAE)"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ablate.core.workload import WorkloadInfo
from ablate.workloads.relational.options import SUPPORTS, RelationalOptions, check_data, prepare

if TYPE_CHECKING:
    from ablate.workloads.contract import Workload, WorkloadContext

__all__ = ["INFO", "build", "check", "prepare"]

INFO = WorkloadInfo(
    name="hm/item-sales",
    title="H&M item sales",
    metric="nmae",
    metric_unit="MAE / sd of the training labels",
    higher_is_better=False,
    lr=0.005,
    options=RelationalOptions,
    supports=SUPPORTS,
)
check = partial(check_data, task="item-sales")  # looks whether the data has the task


def build(context: WorkloadContext) -> Workload:
    """Build the model and batches of the task; sales are never negative."""
    from torch.nn.functional import l1_loss

    from ablate.workloads.relational.entity import EntityWorkload

    return EntityWorkload(context, INFO, "item-sales", l1_loss, clamp=lambda predictions: predictions.clip(min=0))
