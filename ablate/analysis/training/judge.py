"""Parity and timed trials of a workload -> did an arm or optimization change the training, with what is behind it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ablate.analysis.results.training import Agreement, MarginRow, Training, TrainingVerdict, WindowRow
from ablate.analysis.speed.evidence import flags
from ablate.analysis.training.curves import make_curves, read_losses, usable_losses
from ablate.analysis.training.margin_tests import Subject, margin_rows, optimization_weights
from ablate.analysis.training.predictions import parity_agreement, timed_agreement
from ablate.analysis.training.verdicts import judge_training
from ablate.analysis.training.windows import compare_windows, full_and_without
from ablate.analysis.trials.comparable import Layout, WorkloadTrials
from ablate.analysis.trials.parity import ParityBlock, group_parity
from ablate.analysis.words.training import NO_MARGIN
from ablate.core.cell import Design, DesignedCell
from ablate.core.study import Study
from ablate.design.lattice import Lattice
from ablate.design.trials import resolve_windows


def make_training(layout: Layout, trials: WorkloadTrials) -> Training:
    """Judge every arm against eager, and every varying optimization.

    Args:
        layout: Margins, windows, what optimizations declare, the cells that have names, the planned parity trials.
        trials: The trials of one workload.
    """
    study, lattice = layout.study, layout.lattice
    arms = _arms(layout.design, trials.workload)
    names = {key: cell.name for key, cell in arms.items()}
    eager = next((key for key, cell in arms.items() if "eager" in cell.arms), "")
    losses = usable_losses(trials)
    curves, distances = make_curves(layout, losses)
    blocks = group_parity(layout.design, trials)
    windows, deviations = compare_windows(study, layout.design, blocks, lambda key: names.get(key, key))
    compared = losses if not trials.not_comparable else {}
    margins = margin_rows(study, trials, compared, _subjects(names, eager, lattice))
    look = _Look(study=study, trials=trials, blocks=blocks, windows=windows, margins=margins)
    verdicts = [_arm_verdict(look, cell, key, eager) for key, cell in arms.items() if key != eager]
    verdicts += [_optimization_verdict(look, layout, name) for name in lattice.names]
    silent = [w for w in windows if w.side == "arm" and w.outcome == "says nothing"]
    agreement = [
        *parity_agreement(
            study, blocks, lambda key: names.get(key, key), {(w.block, w.subject, w.window): w.note for w in silent}
        ),
        *(timed_agreement(study, trials, eager, names) if not trials.not_comparable else ()),
    ]
    return Training(
        margin=study.margins_of(trials.workload).get("loss"),
        verdicts=tuple(verdicts),
        windows=tuple(windows),
        margins=tuple(margins),
        deviations=tuple(deviations),
        agreement=tuple(agreement),
        curves=tuple(curves),
        distances=tuple(distances),
        untested=tuple(_untested(study, trials, blocks, margins, agreement)),
    )


def _arms(design: Design, workload: str) -> dict[str, DesignedCell]:
    """Cells by effective key that are compared with eager: those with a name, and those with a parity trial."""
    cells = [cell for cell in design.cells if cell.arms and not cell.cell.repeat]
    cells += [trial.cell for trial in design.parity if trial.workload == workload]
    found: dict[str, DesignedCell] = {}
    for cell in cells:
        found.setdefault(cell.effective_key, cell)
    return found


def _subjects(names: Mapping[str, str], eager: str, lattice: Lattice) -> Iterator[Subject]:
    for key, name in names.items():
        if key != eager and eager:
            yield Subject(side="arm", name=name, weights={key: 1.0, eager: -1.0})
    for name in lattice.acting:
        weights = optimization_weights(lattice, name)
        if weights:
            yield Subject(side="optimization", name=name, weights=weights)


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What the verdicts of a workload rest on."""

    study: Study
    trials: WorkloadTrials
    blocks: Sequence[ParityBlock]
    windows: Sequence[WindowRow]
    margins: Sequence[MarginRow]

    def judged(self, blank: TrainingVerdict, **facts: Any) -> TrainingVerdict:
        """`judge_training` on the windows and margins of one side and subject."""
        who = blank.side, blank.subject
        windows = [w for w in self.windows if (w.side, w.subject) == who]
        return judge_training(blank, windows, [m for m in self.margins if (m.side, m.subject) == who], **facts)

    def flagged(self, found: TrainingVerdict, keys: Iterable[str]) -> TrainingVerdict:
        """Add what a reader must know about the parity trials behind a verdict: one may not be really compiled."""
        told = [
            f"{block.planned[key].cell.name} in its parity trial of block {block.block}: {flag}"
            for key in keys
            for block in self.blocks
            if key in block.trials
            for flag in flags(block.trials[key].record)
        ]
        return replace(found, gaps=(*found.gaps, *told))


def _arm_verdict(look: _Look, cell: DesignedCell, key: str, eager: str) -> TrainingVerdict:
    numerics = {f.name: f.info.numerics for f in look.study.factors}
    found = look.judged(
        TrainingVerdict(side="arm", subject=cell.name, verdict="not tested"),
        lost=_lost(look.trials, [(key, eager)]),
        changes_training=[n for n in cell.on if n not in cell.inert and numerics[n] == "training"],
    )
    return look.flagged(found, [key])


def _optimization_verdict(look: _Look, layout: Layout, name: str) -> TrainingVerdict:
    lattice, blocks = layout.lattice, look.blocks
    numerics = next(f.info.numerics for f in look.study.factors if f.name == name)
    blank = TrainingVerdict(side="optimization", subject=name, verdict="not tested", numerics=numerics)
    keys = full_and_without(look.study, layout.design, name) or ()
    if name not in lattice.active:
        reason = lattice.why_inert.get(name, "it cannot act here")
        return look.flagged(replace(blank, inert=True, reason=f"inert: {reason}"), keys)
    without = (
        (key, lattice.compiled.get(subset - {name})) for subset, key in lattice.compiled.items() if name in subset
    )
    found = look.judged(
        blank,
        lost=_lost(look.trials, [pair for on, off in without if off for pair in ((on, off), (off, on))]),
        changes_training=[name] if numerics == "training" else [],
        is_deterministic=bool(blocks) and all(block.is_deterministic for block in blocks),
    )
    if blocks and not any((w.side, w.subject) == ("optimization", name) for w in look.windows):
        gap = f"no parity trials of full and of without-{name} were planned"
        found = replace(found, gaps=(gap, *found.gaps), reason=found.reason if found.tier is not None else gap)
    return look.flagged(found, keys)


def _lost(trials: WorkloadTrials, pairs: Iterable[tuple[str, str]]) -> str:
    """The first timed trial whose loss became infinite while that of its partner did not, in words."""
    if trials.not_comparable:
        return ""
    for block in trials.blocks:
        for key, partner in pairs:
            ended = trials.ended.get((block, key))
            if ended is None or ended.record.status != "non-finite" or (block, partner) not in trials.usable:
                continue
            bad = np.flatnonzero(~np.isfinite(read_losses(ended.folder)))
            step = f" at step {bad[0]}" if len(bad) else ""
            name, other = trials.name_of(key), trials.name_of(partner)
            return f"the loss of the timed trial of {name} is not finite{step} (block {block}), that of {other} is"
    return ""


def _untested(
    study: Study,
    trials: WorkloadTrials,
    blocks: Sequence[ParityBlock],
    margins: Sequence[MarginRow],
    agreement: Sequence[Agreement],
) -> Iterator[str]:
    """What this study leaves open about the training of a workload, and why."""
    equivalence = study.equivalence
    if not blocks:
        why = (
            "parity trials are off in the spec (equivalence: off)"
            if equivalence.parity == "off"
            else "this study was planned before there were parity trials; `ablate run SPEC` adds them"
        )
        yield f"Rounding step by step (tiers 0 and 1): {why}, so only the losses of timed trials are compared."
    else:
        yield from _untested_windows(study, blocks)
        if any(block.reference in block.trials and not block.is_deterministic for block in blocks):
            yield "Bitwise equality (tier 0): two eager runs are not bitwise equal here, so the envelope is the test."
    if trials.not_comparable:
        yield f"Losses of timed trials (tier 2): {trials.not_comparable}."
    elif any(m.why == "no margin" and m.quantity != "validation metric" for m in margins):
        yield f"Losses of timed trials against a margin (tier 2): {NO_MARGIN}."
    if any(m.stated == "post hoc" for m in margins):
        yield "The margin was not in the spec when the trials ran: verdicts that rest on it are stated post hoc."
    if {m.num_blocks for m in margins} == {1}:
        yield "Losses of timed trials (tier 2): one block has no interval; more blocks are needed."
    if not agreement:
        yield "Agreement of predictions: no trial of eager and of another arm recorded any."


def _untested_windows(study: Study, blocks: Sequence[ParityBlock]) -> Iterator[str]:
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    planned = {window for block in blocks for trial in block.planned.values() for window in trial.windows}
    missing = [w for w in resolve_windows(study.equivalence, num_steps) if w not in planned]
    parts = [f"windows from step {', '.join(map(str, missing))}"] if missing else []
    if len(blocks) < study.blocks:
        parts.append(f"blocks other than {', '.join(str(block.block) for block in blocks)}")
    if parts:
        yield (
            f"Rounding step by step (tiers 0 and 1) in {' and '.join(parts)}: `equivalence: default` tests the first "
            "window of the first block; `equivalence: all` tests every one."
        )
