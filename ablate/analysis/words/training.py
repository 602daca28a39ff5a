"""Verdicts about the training of a workload -> the sentence of page one, and words that report and terminal share."""

from collections.abc import Iterator, Mapping, Sequence

from ablate.analysis.results.training import WORST_FIRST, MarginRow, MarginWhy, Training, TrainingVerdict, WindowRow
from ablate.core.units import grouped, name_some

ORDER = ("different", "different within margin", "inconclusive", "not tested", "equivalent")
FIRST_ARMS = ("full", "naive")
QUANTITIES = {"lr": "the learning rate", "mask": "the dropout mask", "gradient": "the gradient", "loss": "the loss"}
NO_MARGIN = "no margin in the spec: run `ablate margins SPEC`"


def training_sentence(training: Training) -> str:
    """One sentence: does `full` train like eager, which arms and optimizations do not; empty when none was judged."""
    verdicts = training.verdicts
    arms = {v.subject: v for v in verdicts if v.side == "arm"}
    main = next((arms[name] for name in FIRST_ARMS if name in arms), None) or next(iter(arms.values()), None)
    if main is None:
        return ""
    others = [v for v in arms.values() if v is not main]
    switched = [v for v in verdicts if v.side == "optimization" and not v.inert]
    why = f" ({main.reason})" if main.reason else ""
    parts = [f"{main.subject} against eager: {main.verdict}{why}"]
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


def describe_failure(row: WindowRow) -> str:
    """`the loss is not finite at step 12 (window 0, block 0); the learning rate departs first, at step 10`."""
    where = f"window {row.window}, block {row.block}"
    what = {
        "beyond the envelope": f"the loss leaves the envelope at step {row.first_step}",
        "non-finite loss": f"the loss of {row.lost or row.subject} is not finite at step {row.first_step}",
        "different number of steps": f"the number of steps differs from step {row.first_step} on",
        "different learning rate": f"the learning rate differs from step {row.quantity_step} on",
        "different dropout masks": f"the dropout masks differ from step {row.quantity_step} on",
    }[row.outcome]
    text = f"{what} ({where})"
    if row.quantity in ("", "loss") or row.outcome in ("different learning rate", "different dropout masks"):
        return text
    return f"{text}; {QUANTITIES[row.quantity]} departs first, at step {row.quantity_step}"


def describe_margins(margins: Sequence[MarginRow]) -> str:
    """The row that decides tier 2, with its interval, margin and number of blocks."""
    rows = [m for m in margins if m.quantity != "validation metric" or m.margin is not None]
    row = min(rows, key=lambda m: WORST_FIRST.index(m.verdict))
    parts = [f"{row.quantity} {row.verdict}"]
    if row.difference is not None:
        parts.append(f"difference {row.difference:+.3g}")
    if row.interval_90 is not None:
        parts.append(f"90 % interval {row.interval_90[0]:+.3g} to {row.interval_90[1]:+.3g}")
    if row.margin is not None:
        late = ", stated post hoc" if row.stated == "post hoc" else ""
        parts.append(f"margin {row.margin:g}{late}")
    parts.append(margin_note(row) or f"{row.num_blocks} blocks")
    return ", ".join(parts)


def margin_note(row: MarginRow) -> str:
    """Which bin of a curve is shown, and why nothing is concluded."""
    return "; ".join(filter(None, [_farthest(row), _why_margin(row)]))


def extent(found: TrainingVerdict) -> str:
    """`all 120 tested steps of 2 windows`."""
    windows = f"{found.num_windows} window{'s' if found.num_windows != 1 else ''}"
    return f"all {found.num_steps} tested steps of {windows}"


def window_gaps(windows: Sequence[WindowRow]) -> list[str]:
    """Why windows say nothing, and where eager itself ends what can be tested; equal reasons are one."""
    places = grouped((note, f"window {w.window}, block {w.block}") for w in windows for note in _window_notes(w))
    return [f"{' and '.join(where[:3])}{' and more' * (len(where) > 3)}: {note}" for note, where in places.items()]


def _window_notes(w: WindowRow) -> Iterator[str]:
    if w.outcome == "says nothing":
        yield w.note
    elif w.num_tested < w.num_steps:
        yield f"only the first {w.num_tested} of {w.num_steps} steps can be tested, then eager departs from itself"
    if w.passed and w.quantity:
        yield f"{QUANTITIES[w.quantity]} leaves its own envelope at step {w.quantity_step}, the loss does not"


def margin_gaps(margins: Sequence[MarginRow]) -> list[str]:
    """Why tier 2 is inconclusive, and margins that came late; equal reasons are one."""
    undecided = ((_why_margin(m) or _farthest(m), m.quantity) for m in margins if m.verdict == "inconclusive")
    reasons = grouped((reason, quantity) for reason, quantity in undecided if reason)
    found = [f"{', '.join(quantities)}: {reason}" for reason, quantities in reasons.items()]
    found += [f"{m.quantity}: its margin was stated post hoc" for m in margins if m.stated == "post hoc"]
    return found


def _farthest(row: MarginRow) -> str:
    return "" if row.bin is None else f"bin {row.bin} of {row.num_bins} is farthest off"


def _why_margin(row: MarginRow) -> str:
    if row.why is None:
        return ""
    words: Mapping[MarginWhy, str] = {
        "one block": "one block",
        "no margin": NO_MARGIN + ("; the 95 % interval excludes 0" if row.differs else ""),
        "pilot": f"pilot with {row.num_blocks} blocks, no claim",
        "steps differ": f"different number of steps ({row.detail})",
        "rounded differently": row.detail,
    }
    return words[row.why]


def _groups(verdicts: Sequence[TrainingVerdict]) -> str:
    """`all 5 equivalent`, or the names by verdict, the worst first."""
    groups = grouped((v.verdict, v.subject) for v in sorted(verdicts, key=lambda v: ORDER.index(v.verdict)))
    if len(groups) == 1 and len(verdicts) > 1:
        return f"all {len(verdicts)} {next(iter(groups))}"
    return ", ".join(f"{name_some(names)} {word}" for word, names in groups.items())
