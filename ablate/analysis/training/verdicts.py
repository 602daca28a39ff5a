"""What tiers 0, 1 and 2 found about an arm or an optimization -> one verdict, the tier that decided, and what is open.

The rule, from the top:
1. A window that fails (loss beyond the envelope or not finite, other dropout masks, another number of steps, another
   learning rate) is `different`, whatever tier 2 says. Where an optimization declares that it changes the training,
   only a loss that is not finite and another number of steps are; of the rest tier 2 decides.
2. A timed trial whose loss became infinite where eager's did not is `different`.
3. All windows bitwise equal (tier 0) or within the envelope (tier 1) are `equivalent`, unless tier 2 shows, with five
   blocks or more, a difference larger than the margin: that was trained longer than any window, so it stands. A mere
   difference from 0 does not (5 % of equal arms have one).
4. Otherwise (masks not aligned, too few steps that eager repeats, nothing trained, parity trials off) tier 2 decides:
   the worst of final loss, curve and metric. With fewer than five blocks it is a pilot and `inconclusive`, whatever its
   intervals say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ablate.analysis.results.training import MarginRow, Outcome, TrainingVerdict, TrainingWord, VerdictWord, WindowRow
from ablate.analysis.statistics.inference import FEWEST_BLOCKS

WORST_FIRST: tuple[VerdictWord, ...] = ("different", "inconclusive", "different within margin", "equivalent")
DECLARED: tuple[Outcome, ...] = ("beyond the envelope", "different learning rate", "different dropout masks")
QUANTITIES = {"lr": "the learning rate", "mask": "the dropout mask", "gradient": "the gradient", "loss": "the loss"}


def judge_training(
    blank: TrainingVerdict,
    windows: Sequence[WindowRow],
    margins: Sequence[MarginRow],
    *,
    lost: str = "",
    changes_training: Sequence[str] = (),
    is_deterministic: bool = False,
) -> TrainingVerdict:
    """Combine the tiers.

    Args:
        blank: Whom the verdict is about; its fields about windows are filled in.
        windows: Tier 0 and 1, in the order trained.
        margins: Tier 2.
        lost: A timed trial whose loss became infinite, in words; empty when there is none.
        changes_training: Optimizations in it that declare `training`.
        is_deterministic: Eager's rerun was bitwise equal, so that tier 0 means something.
    """
    found = _with_windows(blank, windows)
    excused = [w for w in windows if w.outcome in DECLARED and changes_training]
    failed = next((w for w in windows if w.failed and w not in excused), None)
    second = second_tier(margins)
    gaps = [*_window_gaps(windows), *_margin_gaps(margins)]
    if excused and failed is None:
        names = ", ".join(changes_training)
        gaps.append(f"{describe_failure(excused[0])}; {names} declares that it changes the training, so tier 2 decides")
    if failed is not None:
        found = _decided(found, "different", 1, describe_failure(failed))
    elif lost:
        found = _decided(found, "different", 2, lost)
    elif windows and all(w.passed for w in windows):
        found = _passed(found, windows)
        beyond = [m for m in margins if m.is_beyond]
        if beyond and _is_full(margins):
            reason = f"its parity trials pass, but the whole training does not: {describe_margins(beyond)}"
            found = _decided(found, "different", 2, reason)
    elif second is not None:
        word = second if _is_full(margins) else "inconclusive"
        found = _decided(found, word, 2, describe_margins(margins))
    else:
        found = _decided(found, "not tested", None, "; ".join(gaps) or "nothing was trained that could tell")
    called_out = _called_out(found, windows, is_deterministic) if found.side == "optimization" else ""
    return replace(found, gaps=tuple(dict.fromkeys(gaps)), called_out=called_out)


def second_tier(margins: Sequence[MarginRow]) -> VerdictWord | None:
    """Worst verdict of tier 2; a metric without a margin does not count. None when nothing was compared."""
    words = [m.verdict for m in margins if m.quantity != "validation metric" or m.margin is not None]
    return min(words, key=WORST_FIRST.index) if words else None


def describe_failure(row: WindowRow) -> str:
    """`the loss is not finite at step 12 (window 0, block 0); the learning rate departs first, at step 10`."""
    where = f"window {row.window}, block {row.block}"
    what = {
        "beyond the envelope": f"the loss leaves the envelope at step {row.first_step}",
        "non-finite loss": f"the loss of {row.note or row.subject} is not finite at step {row.first_step}",
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
        late = ", stated after the fact" if row.stated == "after the fact" else ""
        parts.append(f"margin {row.margin:g}{late}")
    parts.append(row.note or f"{row.num_blocks} blocks")
    return ", ".join(parts)


def _decided(found: TrainingVerdict, word: TrainingWord, tier: Literal[0, 1, 2] | None, reason: str) -> TrainingVerdict:
    return replace(found, verdict=word, tier=tier, reason=reason)


def _passed(found: TrainingVerdict, windows: Sequence[WindowRow]) -> TrainingVerdict:
    if all(w.outcome == "bitwise equal" for w in windows):
        return _decided(found, "equivalent", 0, f"bitwise equal in {_extent(found)}")
    largest = f", at most {found.largest:.1e} apart" if found.largest else ", every loss equal in every bit"
    return _decided(found, "equivalent", 1, f"within eager's own rounding for {_extent(found)}{largest}")


def _extent(found: TrainingVerdict) -> str:
    windows = f"{found.num_windows} window{'s' if found.num_windows != 1 else ''}"
    return f"all {found.num_steps} tested steps of {windows}"


def _with_windows(blank: TrainingVerdict, windows: Sequence[WindowRow]) -> TrainingVerdict:
    told = [w for w in windows if w.outcome != "says nothing"]
    failed = next((w for w in told if w.failed), None)
    largest = [w.largest for w in told if w.largest is not None]
    return replace(
        blank,
        num_windows=len(told),
        num_steps=sum(w.num_tested for w in told),
        largest=max(largest) if largest else None,
        block=failed.block if failed else None,
        window=failed.window if failed else None,
        first_step=failed.first_step if failed else None,
        quantity=failed.quantity if failed else "",
        quantity_step=failed.quantity_step if failed else None,
    )


def _window_gaps(windows: Sequence[WindowRow]) -> list[str]:
    """Why windows say nothing, and where eager itself ends what can be tested; equal reasons are one."""
    places: dict[str, list[str]] = {}
    for w in windows:
        if w.outcome == "says nothing":
            places.setdefault(w.note, []).append(f"window {w.window}, block {w.block}")
        elif w.num_tested < w.num_steps:
            note = f"only the first {w.num_tested} of {w.num_steps} steps can be tested, then eager departs from itself"
            places.setdefault(note, []).append(f"window {w.window}, block {w.block}")
        if w.passed and w.quantity:
            note = f"{QUANTITIES[w.quantity]} leaves its own envelope at step {w.quantity_step}, the loss does not"
            places.setdefault(note, []).append(f"window {w.window}, block {w.block}")
    return [f"{' and '.join(where[:3])}{' and more' * (len(where) > 3)}: {note}" for note, where in places.items()]


def _margin_gaps(margins: Sequence[MarginRow]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for m in margins:
        if m.verdict == "inconclusive" and m.note:
            reasons.setdefault(m.note.rpartition(" is farthest off; ")[2], []).append(m.quantity)
    found = [f"{', '.join(quantities)}: {reason}" for reason, quantities in reasons.items()]
    found += [f"{m.quantity}: its margin was stated after the fact" for m in margins if m.stated == "after the fact"]
    return found


def _is_full(margins: Sequence[MarginRow]) -> bool:
    return all(m.num_blocks >= FEWEST_BLOCKS for m in margins)


def _called_out(found: TrainingVerdict, windows: Sequence[WindowRow], is_deterministic: bool) -> str:
    """How an optimization changes the loss beyond what it declares."""
    if found.numerics not in ("identical", "rounding"):
        return ""
    declared = f"declared {found.numerics}, but "
    if found.verdict == "different":
        return declared + found.reason
    loose = [w for w in windows if w.outcome == "within the envelope"]
    if found.numerics == "identical" and is_deterministic and loose:
        return f"{declared}not bitwise equal (largest relative deviation {found.largest or 0.0:.1e}, within rounding)"
    return ""
