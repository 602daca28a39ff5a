"""A workload that lives outside the project: user churn with a soft hinge loss."""

from ablate.core.workload import WorkloadInfo

INFO = WorkloadInfo(
    name="my/churn-hinge",
    title="churn, hinge loss",
    task="user-churn",
    metric="roc_auc",
    metric_unit="AUROC, 0 to 1",
    higher_is_better=True,
    reference_lr=0.005,
)


def build(context):
    """Build the reference GNN with another loss."""
    from torch.nn.functional import softplus

    from ablate.workloads.relational.entity import EntityWorkload

    return EntityWorkload(context, INFO, lambda scores, churn: softplus(1 - (2 * churn - 1) * scores).mean())
