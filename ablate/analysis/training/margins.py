"""Final losses and metrics of eager seeds -> the margins to write into the spec, before any trial that they judge."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ablate.core.errors import UserError

FEWEST_SEEDS = 20
STRICT_SD, CEILING_SD = 0.5, 0.954
RULE = f"strict = {STRICT_SD} sd, ceiling = {CEILING_SD} sd of eager over seeds"


@dataclass(frozen=True, kw_only=True)
class Margin:
    """What eager differs by from seed to seed, and the margins that follow, all in units of the loss or metric.

    Attributes:
        strict: Half a standard deviation: the margin to write into the spec.
        ceiling: 0.954 standard deviations: a larger margin would call differences of a whole seed equal.
    """

    num_seeds: int
    mean: float
    sd: float
    strict: float
    ceiling: float


@dataclass(frozen=True, kw_only=True)
class ProposedMargins:
    """Margins of one workload; `metric` is None where the trials were not validated."""

    loss: Margin
    metric: Margin | None = None


def propose_margins(
    final_losses: Sequence[float], metrics: Sequence[float] = (), *, fewest_seeds: int = FEWEST_SEEDS
) -> ProposedMargins:
    """Propose the margins of a workload from eager trials that differ in the seed only.

    Args:
        final_losses: `tost.final_loss` of each seed.
        metrics: Validation metric of each seed; empty where there is none.
        fewest_seeds: The specification asks for 20; a standard deviation of fewer is too uncertain to fix a margin.

    Raises:
        UserError: too few seeds, or a loss that is not finite.
    """
    return ProposedMargins(
        loss=_margin("final losses", final_losses, fewest_seeds),
        metric=_margin("validation metrics", metrics, fewest_seeds) if metrics else None,
    )


def _margin(what: str, values: Sequence[float], fewest_seeds: int) -> Margin:
    if len(values) < max(fewest_seeds, 2):
        raise UserError(
            f"margins need {max(fewest_seeds, 2)} eager seeds, there are {len(values)} {what}; train more seeds"
        )
    if not np.all(np.isfinite(values)):
        raise UserError(f"some of the {what} are not finite, so no margin can be proposed; mend the training first")
    sd = float(np.std(values, ddof=1))
    return Margin(
        num_seeds=len(values), mean=float(np.mean(values)), sd=sd, strict=STRICT_SD * sd, ceiling=CEILING_SD * sd
    )
