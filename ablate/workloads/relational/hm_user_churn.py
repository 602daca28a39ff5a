"""rel-hm -> will a customer who bought last week buy nothing in the next seven days? (binary, ROC AUC)"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ablate.core.workload import WorkloadInfo
from ablate.workloads.relational.options import SUPPORTS, RelationalOptions, check_data, prepare

if TYPE_CHECKING:
    from ablate.workloads.contract import Workload, WorkloadContext

__all__ = ["INFO", "build", "check", "prepare"]

INFO = WorkloadInfo(
    name="hm/user-churn",
    title="H&M user churn",
    metric="roc_auc",
    metric_unit="AUROC, 0 to 1",
    higher_is_better=True,
    lr=0.005,
    options=RelationalOptions,
    supports=SUPPORTS,
)
check = partial(check_data, task="user-churn")  # looks whether the data has the task


def build(context: WorkloadContext) -> Workload:
    """Build the model and batches of the task."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    from ablate.workloads.relational.entity import EntityWorkload

    return EntityWorkload(context, INFO, "user-churn", binary_cross_entropy_with_logits)
