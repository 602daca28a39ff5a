"""rel-hm -> which articles will a customer buy in the next seven days? (recommendation, MAP@12)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ablate.core.workload import WorkloadInfo

if TYPE_CHECKING:
    from ablate.workloads.contract import Workload, WorkloadContext

INFO = WorkloadInfo(
    name="hm/user-item-purchase",
    title="H&M user-item purchase",
    task="user-item-purchase",
    metric="map",
    metric_unit="MAP@12, 0 to 1",
    higher_is_better=True,
    reference_lr=0.001,
)


def build(context: WorkloadContext) -> Workload:
    """Build the two towers and their batches."""
    from ablate.workloads.relational.links import LinkWorkload

    return LinkWorkload(context, INFO)
