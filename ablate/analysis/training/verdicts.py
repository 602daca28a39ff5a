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

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ablate.analysis.results.training import WORST_FIRST, MarginRow, TrainingVerdict, TrainingWord, WindowRow
from ablate.analysis.statistics.envelope import Outcome
from ablate.analysis.statistics.inference import FEWEST_BLOCKS
from ablate.analysis.statistics.tost import VerdictWord
from ablate.analysis.words.training import describe_failure, describe_margins, extent, margin_gaps, window_gaps

DECLARED: tuple[Outcome, ...] = ("beyond the envelope", "different learning rate", "different dropout masks")


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
    gaps = [*window_gaps(windows), *margin_gaps(margins)]
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


def _decided(found: TrainingVerdict, word: TrainingWord, tier: Literal[0, 1, 2] | None, reason: str) -> TrainingVerdict:
    return replace(found, verdict=word, tier=tier, reason=reason)


def _passed(found: TrainingVerdict, windows: Sequence[WindowRow]) -> TrainingVerdict:
    if all(w.outcome == "bitwise equal" for w in windows):
        return _decided(found, "equivalent", 0, f"bitwise equal in {extent(found)}")
    largest = f", at most {found.largest:.1e} apart" if found.largest else ", every loss equal in every bit"
    return _decided(found, "equivalent", 1, f"within eager's own rounding for {extent(found)}{largest}")


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
