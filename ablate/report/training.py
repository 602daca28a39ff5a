"""Results of a workload -> the report's part "Did it change the training?": verdicts, tests, agreement, gaps."""

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.analysis.results.speed import ArmSummary
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.results.training import Agreement, MarginRow, Side, Training, TrainingVerdict
from ablate.analysis.words.training import ORDER, decided_by, margin_note
from ablate.core.units import grouped
from ablate.report.cells import EMPTY, Table, TableCell, Tone, cell, number, table

TONES: Mapping[str, Tone] = {"equivalent": "good", "different": "bad", "different within margin": "strong"}
MOST_ARMS = 16
RULE = (
    "Equivalent means: within ten times what eager's own rounding does in the same steps (parity trials: same weights, "
    "batches and dropout masks), or inside a margin that the spec stated before the trials (timed trials, two "
    "one-sided tests). A small or insignificant difference alone is never called equivalent."
)


def training_section(result: WorkloadResults) -> dict[str, Any]:
    """Work out the tables and lists of the section; a table is None where there is nothing to show."""
    training = result.training
    verdicts = training.verdicts
    return {
        "arms": _verdicts(training, "arm"),
        "optimizations": _verdicts(training, "optimization"),
        "called_out": [f"{v.subject}: {v.called_out}" for v in verdicts if v.called_out],
        "curves": _curves(result),
        "margins": _margins(training),
        "agreement": _agreement(training),
        "open": list(training.untested),
        "gaps": _gaps(verdicts),
        "rule": RULE,
    }


def _verdicts(training: Training, side: Side) -> Table | None:
    mine = [v for v in training.verdicts if v.side == side]
    rows = sorted(mine, key=lambda v: _rank(v, many=len(mine) > MOST_ARMS))
    shown, hidden = rows[:MOST_ARMS], rows[MOST_ARMS:]
    if not rows:
        return None
    headers = [side, "verdict", "decided by", "largest deviation, tested", "departs first", "why"]
    lines = [_verdict_row(verdict) for verdict in shown]
    if side == "arm":
        headers.append("predictions")
        lines = [[*line, _predictions(training, verdict.subject)] for line, verdict in zip(lines, shown, strict=True)]
    if hidden:
        text = f"and {len(hidden)} more, none worse than {shown[-1].verdict}"
        lines.append([cell(text, "tables/training.csv", "grey"), *([cell("")] * (len(headers) - 1))])
    return table(headers, lines)


def _rank(verdict: TrainingVerdict, *, many: bool) -> tuple[int, int]:
    """Named arms first in their order when there are few; the worst first where not all of them fit."""
    return (ORDER.index(verdict.verdict) if many else 0), 0 if verdict.subject in ("naive", "full") else 1


def _verdict_row(verdict: TrainingVerdict) -> list[TableCell]:
    numerics = f"declares {verdict.numerics}" if verdict.numerics else ""
    steps = f"{verdict.num_steps} steps, {verdict.num_windows} windows" if verdict.num_windows else ""
    return [
        cell(verdict.subject, numerics, "strong"),
        cell(verdict.verdict, "", TONES.get(verdict.verdict, "grey")),
        cell(decided_by(verdict) or "-"),
        cell(number(verdict.largest, 2), steps),
        _departure(verdict),
        cell(verdict.reason, tone="grey" if verdict.verdict != "different" else ""),
    ]


def _predictions(training: Training, arm: str) -> TableCell:
    """How many predictions changed after the first parity window, or else after the whole training; the worst block."""
    rows = [a for a in training.agreement if a.arm == arm]
    if not rows:
        return EMPTY
    worst = max((a for a in rows if a.trials == rows[0].trials), key=lambda a: a.num_changed)
    return cell(_changed(worst), "parity" if worst.trials == "parity" else "timed")


def _changed(row: Agreement) -> str:
    what = {"decisions": "decisions", "values": "values", "rankings": "orders"}[row.kind]
    return f"{row.num_changed} of {row.num_rows} {what}"


def _departure(verdict: TrainingVerdict) -> TableCell:
    if verdict.window is None:
        return EMPTY
    step = verdict.first_step if verdict.quantity_step is None else verdict.quantity_step
    return cell(f"{verdict.quantity or 'loss'}, step {step}", f"window {verdict.window}, block {verdict.block}")


def _margins(training: Training) -> Table | None:
    """Tier 2 of full, naive and the optimizations; the other arms are in the tables."""
    rows = [m for m in training.margins if m.side == "optimization" or m.subject in ("naive", "full")]
    if not rows:
        return None
    headers = ["subject", "quantity", "difference", "margin", "verdict"]
    return table(headers, [_margin_row(row) for row in rows])


def _margin_row(row: MarginRow) -> list[TableCell]:
    interval = ""
    if row.interval_90 is not None:
        interval = f"90 %: {row.interval_90[0]:+.3g} to {row.interval_90[1]:+.3g}"
    stated = {"never": "", "before the trials": "stated before the trials", "post hoc": "stated post hoc"}
    blocks = f"{row.num_blocks} block{'s' if row.num_blocks != 1 else ''}"
    return [
        cell(row.subject, row.side, "strong"),
        cell(row.quantity),
        cell("-" if row.difference is None else f"{row.difference:+.3g}", interval),
        cell("none" if row.margin is None else f"±{row.margin:g}", stated[row.stated]),
        cell(row.verdict, margin_note(row) or blocks, TONES.get(row.verdict, "grey")),
    ]


def _agreement(training: Training) -> Table | None:
    """Predictions of each arm, the worst block; eager's own reruns beside them."""
    groups = grouped(((row.trials, row.arm), row) for row in training.agreement)
    rows = [_agreement_row(max(found, key=lambda a: a.num_changed)) for found in groups.values()]
    headers = ["predictions of", "after", "changed", "largest difference", "mean difference", "overlap of top k"]
    return table(headers, rows[:MOST_ARMS]) if rows else None


def _agreement_row(row: Agreement) -> list[TableCell]:
    after = "the first window" if row.trials == "parity" else "the whole training"
    return [
        cell(row.arm, row.note, "strong"),
        cell(after, f"block {row.block}" if row.trials == "parity" else f"worst block: {row.block}"),
        cell(_changed(row)),
        cell(number(row.largest, 2)),
        cell(number(row.mean, 2)),
        cell("-" if row.overlap is None else f"{100 * row.overlap:.2f} %"),
    ]


def _gaps(verdicts: Sequence[TrainingVerdict]) -> list[str]:
    """What single arms and optimizations leave open; the same gap of several is one line."""
    subjects = grouped((gap, verdict.subject) for verdict in verdicts for gap in verdict.gaps)
    return [f"{', '.join(names)}: {gap}" for gap, names in subjects.items()]


def _curves(result: WorkloadResults) -> Table | None:
    """Losses and metrics of the timed trials, with their distance from eager."""
    arms = [a for a in result.speed.arms if a.num_trials]
    headers = ["arm", "final loss", "validation metric", "largest relative deviation", "first beyond 1e-5"]
    return table(headers, [_curve_row(result.training, arm) for arm in arms]) if arms else None


def _curve_row(training: Training, arm: ArmSummary) -> list[TableCell]:
    distances = [d for d in training.distances if d.arm == arm.arm]
    largest = [d.max_deviation for d in distances if d.max_deviation is not None]
    beyond = [d.first_step_beyond for d in distances if d.first_step_beyond is not None]
    notes = "; ".join(dict.fromkeys(d.note for d in distances if d.note))
    row = [cell(arm.label, tone="strong"), cell(number(arm.final_loss)), cell(number(arm.metric))]
    if arm.arm == "eager":
        return [*row, cell("reference", tone="grey"), EMPTY]
    first = cell(f"step {min(beyond)}") if beyond else cell("never") if largest else EMPTY
    return [*row, cell(number(max(largest), 2) if largest else "-", notes), first]
