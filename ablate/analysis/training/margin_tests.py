"""Timed trials, and margins proposed from eager seeds -> tier 2: paired over blocks, against the stated margin."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ablate.analysis.results.training import MarginRow, MarginWhy, Side
from ablate.analysis.statistics.engine import Array
from ablate.analysis.statistics.inference import FEWEST_BLOCKS
from ablate.analysis.statistics.tost import (
    MarginTest,
    bin_losses,
    curve_test,
    margin_test,
    non_inferiority_test,
    verdict,
)
from ablate.analysis.trials.comparable import WorkloadTrials, mixed_precision
from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.design.fraction import FEWEST_ACTING
from ablate.design.game import half_fraction, subsets_of
from ablate.design.lattice import Lattice

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


Losses = Mapping[tuple[int, str], Array]
Weights = Mapping[str, float]
ROUNDING = 1e-13


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a difference is about: weights on the cells of one block, which sum to 0."""

    side: Side
    name: str
    weights: Weights


TINY = 1e-12


def optimization_weights(lattice: Lattice, name: str) -> Weights:
    """Weights of the mean of the cells with an optimization on minus the mean of those with it off.

    In a complete or half lattice these are all its cells, which supplies the power; elsewhere the pairs that differ in
    nothing else. Empty when there is no such pair, or the optimization cannot act.
    """
    if name not in lattice.active:
        return {}
    half = half_fraction(lattice.acting)
    is_half = len(lattice.acting) >= FEWEST_ACTING and all(subset in lattice.compiled for subset in half)
    if lattice.is_complete or is_half:
        used = list(lattice.compiled) if lattice.is_complete else half  # naive comes on top of a half: unbalanced
        on = [lattice.compiled[subset] for subset in used if name in subset]
        off = [lattice.compiled[subset] for subset in used if name not in subset]
    else:
        alone = [s for s in subsets_of(lattice.acting) if name not in s and {s, s | {name}} <= lattice.compiled.keys()]
        on, off = [lattice.compiled[s | {name}] for s in alone], [lattice.compiled[s] for s in alone]
    weights: dict[str, float] = {}
    for keys, sign in ((on, 1.0), (off, -1.0)):
        for key in keys:  # of cells that are aliases the weights add up
            weights[key] = weights.get(key, 0.0) + sign / len(keys)
    return {key: weight for key, weight in weights.items() if abs(weight) > TINY}


def margin_rows(study: Study, trials: WorkloadTrials, losses: Losses, subjects: Iterable[Subject]) -> list[MarginRow]:
    """Test the final loss, the curve and the validation metric of every subject.

    Args:
        study: Its margins, by workload.
        trials: Usable timed trials of one workload.
        losses: Loss per step by block and effective key, shape (T,).
        subjects: What to test.
    """
    stated = study.margins_of(trials.workload)
    margins = stated.get("loss"), stated.get("metric")
    rows: list[MarginRow] = []
    for subject in subjects:
        blocks = [b for b in trials.blocks if all((b, key) in losses for key in subject.weights)]
        refusal = mixed_precision([trials.usable[block, key] for block in blocks for key in subject.weights])
        if refusal:
            blank = _blank(trials, subject, blocks, margins[0], "loss")
            rows.append(replace(blank, why="rounded differently", detail=refusal))
            continue
        rows += _loss_rows(trials, losses, subject, blocks, margins[0])
        metric = _metric_row(trials, subject, blocks, margins[1])
        rows += [metric] if metric is not None else []
    return rows


def _loss_rows(
    trials: WorkloadTrials, losses: Losses, subject: Subject, blocks: list[int], margin: float | None
) -> Iterator[MarginRow]:
    lengths = {len(losses[block, key]) for block in blocks for key in subject.weights}
    blank = _blank(trials, subject, blocks, margin, "loss")
    if not blocks:
        return
    if len(lengths) > 1:
        detail = f"{min(lengths)} against {max(lengths)}"
        yield replace(blank, quantity="final loss", verdict="different", why="steps differ", detail=detail)
        return
    values_NB = np.array([_binned_difference(losses, block, subject.weights) for block in blocks]).T
    final_B = values_NB[-1]
    yield _judged(replace(blank, quantity="final loss"), final_B, lambda: margin_test(final_B, margin))
    worst = int(np.argmax(np.abs(np.mean(values_NB, axis=1))))
    blank = replace(blank, quantity="loss curve", bin=worst + 1, num_bins=len(values_NB))
    yield _judged(blank, values_NB[worst], lambda: curve_test(values_NB, margin), worst)


def _binned_difference(losses: Losses, block: int, weights: Weights) -> Array:
    """Weighted sum of the binned losses of one block, shape (N,); what is left of equal losses by rounding is 0."""
    parts_CN = np.array([weight * bin_losses(losses[block, key]) for key, weight in weights.items()])
    total_N = np.sum(parts_CN, axis=0)
    return np.where(np.abs(total_N) <= ROUNDING * np.sum(np.abs(parts_CN), axis=0), 0.0, total_N)


def _metric_row(trials: WorkloadTrials, subject: Subject, blocks: list[int], margin: float | None) -> MarginRow | None:
    metrics = {(block, key): trials.usable[block, key].record.metric for block in blocks for key in subject.weights}
    present = [b for b in blocks if all(metrics[b, key] is not None for key in subject.weights)]
    if not present:
        return None
    better_B = np.zeros(len(present))
    for index, block in enumerate(present):
        for key, weight in subject.weights.items():
            metric = metrics[block, key]
            assert metric is not None
            better_B[index] += weight * metric.value * (1.0 if metric.higher_is_better else -1.0)
    blank = _blank(trials, subject, present, margin, "metric")
    return _judged(
        replace(blank, quantity="validation metric"), better_B, lambda: non_inferiority_test(better_B, margin)
    )


def _blank(trials: WorkloadTrials, subject: Subject, blocks: list[int], margin: float | None, kind: str) -> MarginRow:
    stated = [trials.usable[block, key].record.margins.get(kind) for block in blocks for key in subject.weights]
    return MarginRow(
        side=subject.side,
        subject=subject.name,
        quantity="final loss",
        verdict="inconclusive",
        difference=None,
        margin=margin,
        stated="never" if margin is None else "before the trials" if set(stated) == {margin} else "post hoc",
        num_blocks=len(blocks),
    )


def _judged(row: MarginRow, values_B: Array, test: Callable[[], MarginTest], place: int | None = None) -> MarginRow:
    """Fill in the numbers of a row, and its verdict where blocks and margin allow one.

    Args:
        place: Index of the shown bin in a test of many.
    """
    row = replace(row, difference=float(np.mean(values_B)))
    if len(values_B) < 2:
        return replace(row, why="one block")
    found = test()
    mean, half_90, half_95 = (
        float(array if place is None else array[place]) for array in (found.mean, found.half_90, found.half_95)
    )
    row = replace(
        row,
        interval_90=(mean - half_90, mean + half_90),
        interval_95=(mean - half_95, mean + half_95),
        differs=bool(found.differs),
    )
    if row.margin is None:
        return replace(row, why="no margin")
    why: MarginWhy | None = "pilot" if len(values_B) < FEWEST_BLOCKS else None
    return replace(row, verdict=verdict(inside=bool(found.inside), differs=row.differs), why=why)
