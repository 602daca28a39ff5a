"""Contrasts of a design and the noise of one trial -> blocks needed, smallest detectable effects, per kind of number.

A contrast with weights `w` has the variance `trial_sd^2 * sum of w^2` in a block: what the block does to all its trials
cancels, since weights add up to 0.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ablate.analysis.quality.residuals import take_out_means
from ablate.analysis.statistics.inference import (
    TARGETS,
    blocks_for_width,
    blocks_to_detect,
    expected_half_width,
    smallest_detectable,
)
from ablate.analysis.trials.comparable import Trial, select_trials
from ablate.analysis.trials.responses import log_times
from ablate.core.cell import Design
from ablate.core.contrast import Contrast, ContrastKind
from ablate.core.study import Study
from ablate.design.contrasts import make_contrasts

PROCESS_SD, EPOCH_SD = 0.015, 0.02
PRIMARY: tuple[ContrastKind, ...] = ("optimization", "leave-one-out", "add-one-in", "ladder", "total")
SHOWN: tuple[ContrastKind, ...] = (
    "total", "compile", "optimization", "layer", "interaction", "leave-one-out", "add-one-in", "ladder",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviation of the log time of one trial inside a block, and where it comes from."""

    trial_sd: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Need:
    """What numbers of one kind and one sum of squared weights need; effects and widths are ratios (0.02 = 2 %).

    Attributes:
        subjects: What the numbers are about.
        variance: Sum of squared weights.
        half_width, half_width_simultaneous: Expected with the study's number of blocks.
        detectable, detectable_simultaneous: Smallest effect found with power .9 then.
        blocks, blocks_simultaneous: Blocks that find effects of 1, 2, 3 % with power .9, by effect.
        blocks_for_target: Blocks whose widest simultaneous interval is within the target.
    """

    kind: ContrastKind
    subjects: tuple[str, ...]
    variance: float
    half_width: float
    half_width_simultaneous: float
    detectable: float
    detectable_simultaneous: float
    blocks: dict[str, int | None]
    blocks_simultaneous: dict[str, int | None]
    blocks_for_target: int | None


def pilot_noise(study: Study, design: Design, trials: Iterable[Trial]) -> Noise | None:
    """Noise from the trials that ended already, the noisiest workload; None with fewer than two complete blocks."""
    found = {}
    for workload in select_trials(study, design, trials)[0]:
        residuals = take_out_means(workload, log_times(workload, "steady"))
        if residuals is not None:
            found[workload.workload] = residuals.trial_sd, len(residuals.blocks)
    if not found:
        return None
    name = max(found, key=lambda workload: found[workload][0])
    sd, blocks = found[name]
    return Noise(
        trial_sd=sd, source=f"from {blocks} complete blocks of {name}, steady epoch: {100 * sd:.2f} % per trial"
    )


def assumed_noise(study: Study) -> Noise:
    """1.5 % per process, and 2 % per epoch of which the median is taken (`pi / 2` of a mean's variance)."""
    steady = max(study.timing.epochs - 1, 1)
    sd = math.sqrt(PROCESS_SD**2 + EPOCH_SD**2 * (math.pi / 2 if steady > 2 else 1.0) / steady)
    return Noise(
        trial_sd=sd,
        source=f"assumed, not measured: {100 * PROCESS_SD:g} % per process and {100 * EPOCH_SD:g} % per epoch, so "
        f"{100 * sd:.2f} % per trial; give --noise, or run 2 blocks first",
    )


def make_needs(study: Study, design: Design, noise: Noise, target: float, blocks: int) -> list[Need]:
    """Work out what every kind of number of a design needs.

    Args:
        target: Wanted half-width of the widest simultaneous interval, as a ratio.
        blocks: Number of blocks that widths and detectable effects are stated for (2 or more).
    """
    contrasts = [c for c in make_contrasts(study, design)[0] if c.weights]
    found = []
    for kind in SHOWN:
        family = [c for c in contrasts if c.kind == kind]
        for variance in sorted({round(variance_of(c), 9) for c in family}):
            alike = tuple(c.subject for c in family if round(variance_of(c), 9) == variance)
            sd = noise.trial_sd * math.sqrt(variance)
            found.append(_need(kind, alike, variance, sd, target, max(blocks, 2), len(family)))
    return found


def blocks_of_design(study: Study, design: Design, noise: Noise, target: float) -> int | None:
    """Blocks whose widest simultaneous interval of the design's primary family is within the target."""
    contrasts = [c for c in make_contrasts(study, design)[0] if c.weights]
    family: Sequence[Contrast] = next(
        (members for kind in PRIMARY if (members := [c for c in contrasts if c.kind == kind])), ()
    )
    if not family:
        return None
    sd = noise.trial_sd * math.sqrt(max(map(variance_of, family)))
    return blocks_for_width(sd, target, family=len(family))


def variance_of(contrast: Contrast) -> float:
    """Sum of squared weights."""
    return sum(weight**2 for weight in contrast.weights.values())


def _need(
    kind: ContrastKind, subjects: tuple[str, ...], variance: float, sd: float, target: float, blocks: int, family: int
) -> Need:
    return Need(
        kind=kind,
        subjects=subjects,
        variance=variance,
        half_width=expected_half_width(sd, blocks),
        half_width_simultaneous=expected_half_width(sd, blocks, family=family),
        detectable=smallest_detectable(sd, blocks),
        detectable_simultaneous=smallest_detectable(sd, blocks, family=family),
        blocks={f"{t:g}": blocks_to_detect(sd, t) for t in TARGETS},
        blocks_simultaneous={f"{t:g}": blocks_to_detect(sd, t, family=family) for t in TARGETS},
        blocks_for_target=blocks_for_width(sd, target, family=family),
    )
