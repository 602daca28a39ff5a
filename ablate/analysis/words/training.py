"""Verdicts about the training of a workload -> the sentence of page one, and words that report and terminal share."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.analysis.results.study import Results
from ablate.analysis.results.training import TrainingVerdict

ORDER = ("different", "different within margin", "inconclusive", "not tested", "equivalent")
FIRST_ARMS = ("full", "naive")
NAMED = 4


def training_sentence(results: Results, workload: str) -> str:
    """One sentence: does `full` train like eager, which arms and optimizations do not; empty when none was judged."""
    verdicts = [v for v in results.training if v.workload == workload]
    arms = {v.subject: v for v in verdicts if v.side == "arm"}
    main = next((arms[name] for name in FIRST_ARMS if name in arms), None) or next(iter(arms.values()), None)
    if main is None:
        return ""
    others = [v for v in arms.values() if v is not main]
    switched = [v for v in verdicts if v.side == "optimization" and not v.reason.startswith("inert")]
    parts = [f"{main.subject} against eager: {main.verdict}{_why(main)}"]
    parts += [
        f"{what}: {_groups(rows)}" for what, rows in (("other arms", others), ("optimizations", switched)) if rows
    ]
    called = [v.subject for v in switched if v.called_out]
    if called:
        parts.append(f"changed beyond what it declares: {', '.join(called)}")
    return f"Did it change the training? {'; '.join(parts)}."


def decided_by(verdict: TrainingVerdict) -> str:
    """The tier that decided, in words."""
    names = {0: "tier 0, bitwise", 1: "tier 1, envelope", 2: "tier 2, timed trials"}
    return "" if verdict.tier is None else names[verdict.tier]


def _why(verdict: TrainingVerdict) -> str:
    return f" ({verdict.reason})" if verdict.reason else ""


def _groups(verdicts: Sequence[TrainingVerdict]) -> str:
    """`all 5 equivalent`, or the names by verdict, the worst first."""
    groups: dict[str, list[str]] = {}
    for verdict in sorted(verdicts, key=lambda v: ORDER.index(v.verdict)):
        groups.setdefault(verdict.verdict, []).append(verdict.subject)
    if len(groups) == 1 and len(verdicts) > 1:
        return f"all {len(verdicts)} {next(iter(groups))}"
    return ", ".join(f"{_names(names)} {word}" for word, names in groups.items())


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
