"""Parity trials of a workload -> tiers 0 and 1 for every arm and optimization, block and window, and the curves shown.

An arm is compared with eager. An optimization is judged by `full` against `full` without it, in the envelope of eager:
the two differ in nothing else, and where the optimization promises identical arithmetic they must be bitwise equal.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from ablate.analysis.results.training import Deviation, Side, WindowRow
from ablate.analysis.statistics.engine import finite
from ablate.analysis.statistics.envelope import FACTOR, FEWEST_TESTED, WindowSeries, WindowTest, compare_window
from ablate.analysis.trials.parity import ParityBlock, Recorded, read_runs, reruns_of, window_of
from ablate.core.cell import Cell, Design
from ablate.core.study import Study
from ablate.design.cells import compiled_cell

Runs = Mapping[tuple[str, int], Recorded]


def full_and_without(study: Study, design: Design, name: str) -> tuple[str, str] | None:
    """Effective keys of `full` and of `full` without an optimization; None when they are one (it cannot act)."""
    every = {f.name for f in study.varying}
    known = {cell.cell.key: cell for cell in (*design.cells, *(trial.cell for trial in design.parity))}
    cells = [compiled_cell(study, on) for on in (every, every - {name})]
    inert = known[cells[0].key].inert if cells[0].key in known else {}
    full, without = (
        known[cell.key].effective_key if cell.key in known else _effective_key(study, cell, inert) for cell in cells
    )
    return None if full == without else (full, without)


def compare_windows(
    study: Study, design: Design, blocks: Sequence[ParityBlock], name_of: Callable[[str], str]
) -> tuple[list[WindowRow], list[Deviation]]:
    """Compare every arm with eager, and `full` with `full` without each optimization.

    Args:
        study: Its varying factors are the optimizations.
        design: Its cells, timed and parity.
        blocks: The parity trials of one workload.
        name_of: Effective key -> name of the arm.

    Returns:
        Rows by block, and for each arm and window the curve of the block that came nearest to the limit.
    """
    rows: list[WindowRow] = []
    shown: dict[tuple[str, int], tuple[float, Deviation]] = {}
    for block in blocks:
        runs = {key: read_runs(trial) for key, trial in block.trials.items()}
        for key in block.planned:
            if key == block.reference:
                continue
            for row, test in _arm_windows(block, key, name_of(key), runs):
                rows.append(row)
                if test is not None:
                    _keep_worst(shown, row, test)
        for factor in study.varying:
            keys = full_and_without(study, design, factor.name)
            if keys is not None and set(keys) <= set(block.planned):
                rows += _switch_windows(block, keys, factor.name, runs)
    return rows, [deviation for _, deviation in shown.values()]


def _arm_windows(
    block: ParityBlock, key: str, name: str, runs: Mapping[str, Runs]
) -> Iterator[tuple[WindowRow, WindowTest | None]]:
    refusal = block.why_not(key, block.reference)
    for window in block.planned[key].windows:
        problem = refusal or _window_problem(block, (key, block.reference), window, runs)
        if problem:
            yield _nothing(block, "arm", name, window, problem), None
            continue
        eager = runs[block.reference]
        arm = runs[key]["arm", window]
        test = compare_window(arm.series, eager["eager", window].series, reruns_of(eager, window))
        yield _row(block, ("arm", name), window, (arm.series, name, "eager"), test), test


def _switch_windows(
    block: ParityBlock, keys: tuple[str, str], name: str, runs: Mapping[str, Runs]
) -> Iterator[WindowRow]:
    full, without = keys
    pairs = (full, block.reference), (without, block.reference), (full, without)
    refusal = next(filter(None, (block.why_not(*pair) for pair in pairs)), "")
    for window in block.planned[full].windows:
        problem = refusal or _window_problem(block, (full, without, block.reference), window, runs)
        if problem:
            yield _nothing(block, "optimization", name, window, problem)
            continue
        eager, on, off = runs[block.reference], runs[full]["arm", window], runs[without]["arm", window]
        test = compare_window(on.series, eager["eager", window].series, reruns_of(eager, window), off.series)
        is_bitwise = block.is_deterministic and on.is_bitwise(off)
        sides = on.series, "full", f"full without {name}"
        yield _row(block, ("optimization", name), window, sides, test, is_bitwise=is_bitwise)


def _window_problem(block: ParityBlock, keys: tuple[str, ...], window: int, runs: Mapping[str, Runs]) -> str:
    """Why one window says nothing: not trained, other batches, masks not aligned, or no envelope."""
    facts = {key: window_of(block.trials[key], window) for key in keys}
    for key, fact in facts.items():
        run = "eager" if key == block.reference else "arm"
        if fact is None or (run, window) not in runs[key]:
            return f"{_who(block, key)} did not train this window"
    longest = max(fact.num_steps for fact in facts.values() if fact is not None)
    hashes = {f.stream_hash for f in facts.values() if f is not None and f.num_steps == longest}
    if len(hashes) > 1:  # of a window that ended early the hash covers fewer batches
        return "the batches of this window differ, so it is not paired"
    for key, fact in facts.items():
        if fact is not None and fact.masks == "not aligned":
            note = f" ({fact.note})" if fact.note else ""
            return f"{_who(block, key)}: the dropout masks are not aligned{note}"
    if not reruns_of(runs[block.reference], window):
        return "eager has no rerun from perturbed weights, so there is no envelope"
    return ""


def _who(block: ParityBlock, key: str) -> str:
    return "eager" if key == block.reference else block.planned[key].cell.name


def _nothing(block: ParityBlock, side: Side, subject: str, window: int, note: str) -> WindowRow:
    return WindowRow(side=side, subject=subject, block=block.block, window=window, outcome="says nothing", note=note)


def _row(
    block: ParityBlock,
    subject: tuple[Side, str],
    window: int,
    compared: tuple[WindowSeries, str, str],
    test: WindowTest,
    *,
    is_bitwise: bool = False,
) -> WindowRow:
    """Write down what a window says; `compared` is the series that was compared and the names of both trials."""
    series, name, other = compared
    outcome = "bitwise equal" if is_bitwise else test.outcome
    named = {"different learning rate": "lr", "different dropout masks": "mask"}.get(outcome)
    first = None if is_bitwise else next((d for d in test.departures if d[0] == named), test.first)
    lost = test.loss.first_beyond
    largest = test.loss.largest
    num_steps = min(len(series.loss), len(test.loss.deviation))
    note = lost_by = ""
    if outcome == "says nothing":
        note = (
            f"eager repeats itself within 1e-5 for only {test.loss.num_tested} of {num_steps} steps, too few to tell "
            f"(at least {min(FEWEST_TESTED, num_steps)})"
        )
    elif outcome == "non-finite loss" and lost is not None:
        lost_by = other if np.isfinite(series.loss[lost]) else name
    return WindowRow(
        side=subject[0],
        subject=subject[1],
        block=block.block,
        window=window,
        outcome=outcome,
        num_steps=num_steps,
        num_tested=test.loss.num_tested,
        largest=largest if np.isfinite(largest) else None,
        first_step=None if lost is None else window + lost,
        quantity=first[0] if first else "",
        quantity_step=window + first[1] if first else None,
        lost=lost_by,
        note=note,
    )


def _keep_worst(shown: dict[tuple[str, int], tuple[float, Deviation]], row: WindowRow, test: WindowTest) -> None:
    """Keep the curve whose tested steps came nearest to the limit, or went farthest beyond it."""
    loss = test.loss
    end = max(loss.num_tested, 0 if loss.first_beyond is None else loss.first_beyond + 1)
    ratio = float(np.max(loss.deviation[:end] / (FACTOR * loss.envelope[:end]), initial=0.0))
    place = row.subject, row.window
    if place in shown and shown[place][0] >= ratio:
        return
    curve = Deviation(
        arm=row.subject,
        block=row.block,
        window=row.window,
        steps=tuple(range(row.window, row.window + len(loss.deviation))),
        deviation=tuple(map(finite, loss.deviation)),
        envelope=tuple(map(finite, loss.envelope)),
        num_tested=loss.num_tested,
        first_step=row.first_step,
    )
    shown[place] = ratio, curve


def _effective_key(study: Study, cell: Cell, inert: Collection[str]) -> str:
    """Key of a cell that is not in the design, without what cannot act there, as the design writes it."""
    acts = {f.name for f in study.factors if study.inert_reason(f, cell.execution) is None}
    levels = {name: level for name, level in cell.levels.items() if name in acts and name not in inert}
    return Cell(execution=cell.execution, levels=levels).key
