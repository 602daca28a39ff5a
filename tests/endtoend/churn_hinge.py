"""A workload that lives outside the project: user churn with a soft hinge loss."""

from ablate.core.workload import WorkloadInfo
from ablate.workloads.relational.options import SUPPORTS, RelationalOptions, prepare

__all__ = ["INFO", "build", "prepare"]

INFO = WorkloadInfo(
    name="my/churn-hinge",
    title="churn, hinge loss",
    metric="roc_auc",
    metric_unit="AUROC, 0 to 1",
    higher_is_better=True,
    lr=0.005,
    options=RelationalOptions,
    supports=SUPPORTS,
)


def build(context):
    """Build the reference GNN with another loss."""
    from torch.nn.functional import softplus

    from ablate.workloads.relational.entity import EntityWorkload

    def hinge(scores, churn):
        return softplus(1 - (2 * churn - 1) * scores).mean()

    return EntityWorkload(context, INFO, "user-churn", hinge)
