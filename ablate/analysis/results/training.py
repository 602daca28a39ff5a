"""What the analysis found about losses -> frozen types: curves, and whether the training changed.

Tiers: 0 bitwise, 1 parity trials against the envelope of eager's own rounding, 2 timed trials against the margin of
the spec.
"""

from dataclasses import dataclass
from typing import Literal

from ablate.analysis.statistics.envelope import Outcome
from ablate.analysis.statistics.tost import VerdictWord

TrainingWord = Literal["equivalent", "different within margin", "different", "inconclusive", "not tested"]
Side = Literal["arm", "optimization"]
PredictionKind = Literal["decisions", "values", "rankings"]
MarginWhy = Literal["one block", "no margin", "pilot", "steps differ", "rounded differently"]
WORST_FIRST: tuple[VerdictWord, ...] = ("different", "inconclusive", "different within margin", "equivalent")
PASSED: tuple[Outcome, ...] = ("bitwise equal", "within the envelope")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Thinned loss curve of an arm; `deviation[i]` is the largest relative deviation from eager in bin `i`.

    Attributes:
        steps: Last step of each bin.
        loss: Mean over blocks and the bin; `low` and `high` are the extremes over blocks of the bin mean.
        deviation: `max |loss_arm - loss_eager| / |loss_eager|` over blocks and the steps of the bin; empty for eager.
    """

    arm: str
    blocks: tuple[int, ...]
    steps: tuple[int, ...]
    loss: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    deviation: tuple[float | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CurveDistance:
    """How far one timed trial's loss curve is from the eager one of its block; dropout masks are not aligned there."""

    arm: str
    block: int
    max_deviation: float | None = None
    first_step_beyond: int | None = None
    final_loss: float | None
    final_deviation: float | None = None
    note: str = ""
    equivalence: Literal["not tested"] = "not tested"


@dataclass(frozen=True, kw_only=True)
class WindowRow:
    """One window of one block of parity trials: an arm against eager, or `full` against `full` without an optimization.

    Attributes:
        subject: The arm, or the optimization.
        window: First step.
        outcome: Tier 0 and 1; `says nothing` has its reason in `note`.
        lost: Whose loss is not finite.
        num_steps: Steps that both trained.
        num_tested: Steps before eager stops repeating itself (K).
        largest: Largest relative deviation of the loss over the tested steps; None when it is not finite.
        first_step: First step of the training at which the loss departs.
        quantity: What departs first (`lr`, `mask`, `gradient`, `loss`), and at which step. In a window that passes it
            can be the gradient alone.
    """

    side: Side
    subject: str
    block: int
    window: int
    outcome: Outcome
    num_steps: int = 0
    num_tested: int = 0
    largest: float | None = None
    first_step: int | None = None
    quantity: str = ""
    quantity_step: int | None = None
    lost: str = ""
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome in PASSED

    @property
    def failed(self) -> bool:
        return not self.passed and self.outcome != "says nothing"


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """An arm's relative deviation from eager in one window, of the block in which it came nearest to the limit.

    Attributes:
        deviation: Per step; None where it is not finite.
        envelope: Eager's own, from reruns with weights moved by one ulp; an arm may have ten times that.
        num_tested: The first steps, which are tested; from there on eager does not repeat itself.
    """

    arm: str
    block: int
    window: int
    steps: tuple[int, ...]
    deviation: tuple[float | None, ...]
    envelope: tuple[float | None, ...]
    num_tested: int
    first_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class MarginRow:
    """Timed trials against the margin (tier 2): an arm against eager, or cells with an optimization against others.

    Attributes:
        quantity: `final loss`: mean of the last of 20 bins of steps. `loss curve`: the bin that is farthest off.
            `validation metric`: positive = better.
        difference: Mean over blocks, in units of the loss or metric; None where nothing could be subtracted.
        interval_95: Of a curve it holds for all bins together.
        stated: Whether the spec had the margin when every one of these trials ran.
        bin, num_bins: Which bin of a curve is shown, from 1, and of how many.
        differs: The 95 % interval excludes 0.
        why: Why nothing is concluded, or only a pilot; None for a test with all it needs.
        detail: Both numbers of steps, or the settings by which the losses are rounded.
    """

    side: Side
    subject: str
    quantity: Literal["final loss", "loss curve", "validation metric"]
    verdict: VerdictWord
    difference: float | None
    interval_90: tuple[float, float] | None = None
    interval_95: tuple[float, float] | None = None
    margin: float | None = None
    stated: Literal["before the trials", "post hoc", "never"] = "never"
    num_blocks: int = 0
    bin: int | None = None
    num_bins: int | None = None
    differs: bool = False
    why: MarginWhy | None = None
    detail: str = ""

    @property
    def is_beyond(self) -> bool:
        """The difference is shown to exceed the margin: the whole 95 % interval lies outside (a metric: below)."""
        if self.margin is None or self.interval_95 is None:
            return False
        low, high = self.interval_95
        return high < -self.margin or (low > self.margin and self.quantity != "validation metric")


@dataclass(frozen=True, kw_only=True)
class TrainingVerdict:
    """Whether an arm trains like eager, or an optimization changes the training.

    Attributes:
        tier: Which tier decided; None when nothing did.
        reason: One sentence.
        num_windows, num_steps: Windows (over blocks) that tier 1 tested, and their tested steps together.
        largest: Largest relative deviation there.
        block, window, first_step, quantity, quantity_step: Where it departs first, as in `WindowRow`.
        inert: The optimization cannot act, so there is nothing to test.
        numerics: What an optimization declares: identical, rounding or training.
        called_out: How its loss changed beyond that; empty when it did not.
        gaps: What was not tested, and why.
    """

    side: Side
    subject: str
    verdict: TrainingWord
    tier: Literal[0, 1, 2] | None = None
    reason: str = ""
    num_windows: int = 0
    num_steps: int = 0
    largest: float | None = None
    block: int | None = None
    window: int | None = None
    first_step: int | None = None
    quantity: str = ""
    quantity_step: int | None = None
    inert: bool = False
    numerics: str = ""
    called_out: str = ""
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Predictions on the validation set against eager's of the same block.

    Attributes:
        arm: The arm, or `eager rerun` for eager from weights moved by one ulp.
        trials: `parity` (after the first window) or `timed` (after the whole training, dropout masks not aligned).
        kind: `decisions` at probability 0.5, `values`, or `rankings`.
        num_changed: Rows whose decision differs, whose value differs at all, or whose ranking has another order.
        largest, mean: Largest and mean absolute difference; None for rankings.
        overlap: Mean share of the top k that both rank; None for the others.
    """

    arm: str
    trials: Literal["parity", "timed"]
    block: int
    kind: PredictionKind
    num_rows: int = 0
    num_changed: int = 0
    largest: float | None = None
    mean: float | None = None
    overlap: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything about the losses of one workload.

    Attributes:
        margin: Difference of the loss that the spec allows.
        untested: What this study does not answer, and why.
    """

    margin: float | None = None
    verdicts: tuple[TrainingVerdict, ...] = ()
    windows: tuple[WindowRow, ...] = ()
    margins: tuple[MarginRow, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    curves: tuple[Curve, ...] = ()
    distances: tuple[CurveDistance, ...] = ()
    untested: tuple[str, ...] = ()
