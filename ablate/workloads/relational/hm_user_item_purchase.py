"""rel-hm -> which articles will a customer buy in the next seven days? (recommendation, MAP@12)"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ablate.core.workload import WorkloadInfo
from ablate.workloads.relational.options import SUPPORTS, RelationalOptions, check_data, prepare

if TYPE_CHECKING:
    from ablate.workloads.contract import Workload, WorkloadContext

__all__ = ["INFO", "build", "check", "prepare"]

INFO = WorkloadInfo(
    name="hm/user-item-purchase",
    title="H&M user-item purchase",
    metric="map",
    metric_unit="MAP@12, 0 to 1",
    higher_is_better=True,
    lr=0.001,
    options=RelationalOptions,
    supports=SUPPORTS,
)
check = partial(check_data, task="user-item-purchase")  # looks whether the data has the task


def build(context: WorkloadContext) -> Workload:
    """Build the two towers and their batches."""
    from ablate.workloads.relational.links import LinkWorkload

    return LinkWorkload(context, INFO, "user-item-purchase")
