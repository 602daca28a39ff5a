"""What the analysis found -> frozen types, stored as `results.json`, the only input of figures, PDF and tables.

Format history (`format` in the JSON):
1  first version.

Legend: an effect is a difference of log times (positive = faster); a speed-up is `exp(effect)` (above 1 = faster).
Every list is flat and names its workload, so that it is also a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ablate.analysis.recompilations import Recompilation
from ablate.core.contrast import ContrastKind
from ablate.core.study import Study

FORMAT = 1
Response = Literal["steady", "horizon_cold", "horizon_warm"]
RESPONSES: tuple[Response, ...] = ("steady", "horizon_cold", "horizon_warm")
Grade = Literal["single", "pilot", "full"]
EvidenceWord = Literal["bites", "vacuous", "inert", "structural", "not measured"]
ClaimWord = Literal["supported", "refuted", "undecided", "pilot", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its uncertainty.

    Attributes:
        effect: Mean over blocks of the contrast on log time.
        speedup: `exp(effect)`.
        interval: 95 % block-t interval of the speed-up; None with one block.
        simultaneous: The same, Bonferroni over the family that the number belongs to.
        p_holm: Two-sided p-value, Holm-adjusted over the family; None with one block.
        grade: `single` (one block: no interval), `pilot` (fewer than five: no claims), `full`.
        blocks: The blocks behind it.
        per_block: The contrast in each of these blocks.
    """

    effect: float
    speedup: float
    interval: tuple[float, float] | None = None
    simultaneous: tuple[float, float] | None = None
    p_holm: float | None = None
    grade: Grade = "single"
    blocks: tuple[int, ...] = ()
    per_block: tuple[float, ...] = ()

    @property
    def excludes_one(self) -> bool:
        """Whether the plain interval leaves out a speed-up of 1."""
        return self.interval is not None and not self.interval[0] <= 1.0 <= self.interval[1]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A contrast of one workload and response: estimated, or inert (0 by construction), or refused with the reason.

    Attributes:
        share: Part of the total, only where the total's interval (five blocks or more) leaves out 1.
        claimed: Five blocks or more, Holm below .05, and the evidence says that the switch bites.
        num_weights: How many effective keys carry weight.
        dropped: Why blocks were left out, one sentence each.
        assumes: What must hold for the number to be what its kind says; empty when the cells identify it.
    """

    workload: str
    response: Response
    kind: ContrastKind
    subject: str
    estimate: Estimate | None = None
    inert: str | None = None
    refused: str | None = None
    share: float | None = None
    claimed: bool = False
    num_weights: int = 0
    dropped: tuple[str, ...] = ()
    assumes: str = ""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """A primary effect under another summary or another interval; shown beside it, never claimed."""

    workload: str
    response: Response
    kind: ContrastKind
    subject: str
    method: str
    speedup: float
    interval: tuple[float, float] | None
    num_blocks: int


@dataclass(frozen=True, kw_only=True)
class OrderRange:
    """What one optimization adds as a rung of the ladder, over all orders in which the ladder could be climbed.

    Attributes:
        guide: Speed-up of its rung in the guide's order.
        low, high: Smallest and largest speed-up over all orders (mean over blocks; a range, not an interval).
        low_after, high_after: What was on before it there.
        num_places: Distinct sets that may be on before it.
    """

    workload: str
    response: Response
    optimization: str
    guide: float
    low: float
    high: float
    low_after: tuple[str, ...]
    high_after: tuple[str, ...]
    num_places: int
    num_blocks: int


@dataclass(frozen=True, kw_only=True)
class RunOrder:
    """Whether times drift with the place of a trial in its block.

    Attributes:
        drift: Ratio of the time of the last trial of a block to that of the first, cells and blocks taken out.
        interval: 95 % block-t interval of it; None with fewer than three blocks.
    """

    workload: str
    drift: float
    interval: tuple[float, float] | None
    num_blocks: int


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How narrow the intervals of a family are, and how many blocks in all would make them narrower.

    Attributes:
        half_width: Half-width of the widest simultaneous interval, as a ratio (0.02 = 2 %).
        blocks_needed: Blocks in all by wanted half-width (`0.01`, `0.02`, `0.03`), from the spread between blocks; None
            beyond 400.
    """

    workload: str
    response: Response
    kind: ContrastKind
    num_blocks: int
    half_width: float
    blocks_needed: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Step times of one trial after its last compilation, cut where their level changes by more than 1 %.

    Attributes:
        verdict: `flat`: one level. `settles`: the last level lasts an epoch or more. `no steady state`: it does not.
        steady_from: First step of the last level.
        change: Ratio of the last level to the one before it; None when there is one level.
        num_levels: Number of levels.
    """

    workload: str
    name: str
    block: int
    verdict: Literal["flat", "settles", "no steady state", "too short"]
    steady_from: int
    change: float | None
    num_levels: int


@dataclass(frozen=True, kw_only=True)
class FoldOver:
    """Whether the half fraction is enough for one workload and response, or the other half must be run."""

    workload: str
    response: Response
    verdict: Literal["enough", "run the other half", "too few blocks"]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """One effective key that has a name, over the blocks of a workload; times are medians over blocks, in seconds.

    Attributes:
        arm: Its first name; `aliases` are the other names that share the measurement.
        versus_eager: Effect of eager against this arm, per response.
        counters: Mean of each evidence counter over trials.
        compile_cold_s, compile_warm_s: Median time inside the compiler, by state of the compile cache.
        metric: Median of the validation metric.
        flags: `not really compiled ...`, `no steady state`.
    """

    workload: str
    arm: str
    aliases: tuple[str, ...]
    effective_key: str
    execution: Literal["eager", "compiled"]
    on: tuple[str, ...]
    num_trials: int
    steady_s: float | None = None
    horizon_cold_s: float | None = None
    horizon_warm_s: float | None = None
    versus_eager: Mapping[str, Effect] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    compile_cold_s: float | None = None
    compile_warm_s: float | None = None
    peak_memory_gib: float | None = None
    metric: float | None = None
    metric_name: str = ""
    metric_unit: str = ""
    final_loss: float | None = None
    flags: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The arm's name; a rung of the ladder also says what it adds."""
        rung = self.arm.startswith("ladder-") and self.on
        return f"{self.arm} (+{self.on[-1]})" if rung else self.arm


@dataclass(frozen=True, kw_only=True)
class ExpectationResult:
    """One declared counter over the pairs of trials that differ only in one optimization."""

    counter: str
    direction: Literal["fewer", "more"]
    sentence: str
    num_pairs: int
    num_as_expected: int
    num_opposite: int
    off_mean: float | None = None
    on_mean: float | None = None


@dataclass(frozen=True, kw_only=True)
class EvidenceVerdict:
    """Whether an optimization did anything in a workload, by what it declared beforehand.

    `jointly`: the design has no two cells that differ only in it, so naive was compared with full.
    """

    workload: str
    optimization: str
    verdict: EvidenceWord
    reason: str
    expectations: tuple[ExpectationResult, ...] = ()
    jointly: bool = False


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Thinned loss curve of an arm; `deviation[i]` is the largest relative deviation from eager in bin `i`.

    Attributes:
        steps: Last step of each bin.
        loss: Mean over blocks and the bin; `low` and `high` are the extremes over blocks of the bin mean.
        deviation: `max |loss_arm - loss_eager| / |loss_eager|` over blocks and the steps of the bin; empty for eager.
    """

    workload: str
    arm: str
    blocks: tuple[int, ...]
    steps: tuple[int, ...]
    loss: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    deviation: tuple[float | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CurveDistance:
    """How far one trial's loss curve is from the eager one of its block. Equivalence is not tested yet."""

    workload: str
    arm: str
    block: int
    max_deviation: float | None
    first_step_beyond: int | None
    final_loss: float | None
    final_deviation: float | None
    note: str = ""
    equivalence: Literal["not tested"] = "not tested"


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """Epochs after which `full` has paid back its longer start against eager (medians over blocks)."""

    workload: str
    cache: Literal["cold", "warm"]
    verdict: Literal["after", "at once", "never"]
    epochs: float | None
    startup_difference_s: float
    saving_per_epoch_s: float


@dataclass(frozen=True, kw_only=True)
class LedgerBar:
    """Where the horizon of an arm goes, in seconds (medians over blocks); the parts add up to the horizon."""

    workload: str
    arm: str
    cache: Literal["cold", "warm"]
    horizon_s: float
    compile_s: float
    loader_wait_s: float
    training_s: float


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """The spec's claim under one reading against the total effect of one workload and response.

    `place` is where the measured interval (or the number, without one) lies: `below`, `inside`, `overlapping` or
    `above` the claimed range, or empty.
    """

    workload: str
    response: Response
    reading: Literal["first reading", "second reading"]
    low: float
    high: float
    verdict: ClaimWord
    place: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Largest `|total - (compile + sum of effects)|` over blocks: 0 up to rounding, or the analysis is wrong."""

    workload: str
    response: Response
    over: Literal["optimization", "layer"]
    num_blocks: int
    residual: float


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One attempt of a planned trial and what became of it; `superseded` attempts were followed by another."""

    workload: str
    block: int
    order: int
    name: str
    effective_key: str
    slug: str
    status: str
    reason: str = ""
    attempt: int = 0
    superseded: bool = False
    cache: str = ""
    steady_s: float | None = None
    horizon_s: float | None = None
    startup_s: float | None = None
    compile_s: float | None = None
    loader_wait_s: float | None = None
    final_loss: float | None = None
    metric: float | None = None
    peak_memory_gib: float | None = None
    flags: tuple[str, ...] = ()

    @property
    def completed(self) -> bool:
        return self.status == "completed"

    @property
    def missing(self) -> bool:
        """The trial did not complete, and no later attempt took its place."""
        return not self.completed and not self.superseded

    @property
    def not_run(self) -> bool:
        """The trial is planned and has not ended: no failure, the study just is not that far."""
        return self.status == "not run"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that a reader must know: what was left out, refused or cannot be compared, and why."""

    workload: str
    kind: Literal["not comparable", "left out", "refused", "note"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The answer for one workload in words."""

    workload: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that the report says."""

    format: int = FORMAT
    study: Study
    study_hash: str
    num_cells: int
    num_keys: int
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headlines: tuple[Headline, ...] = ()
    arms: tuple[ArmSummary, ...] = ()
    effects: tuple[Effect, ...] = ()
    identities: tuple[Identity, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    order_ranges: tuple[OrderRange, ...] = ()
    run_order: tuple[RunOrder, ...] = ()
    precision: tuple[Precision, ...] = ()
    stability: tuple[Stability, ...] = ()
    fold_over: tuple[FoldOver, ...] = ()
    evidence: tuple[EvidenceVerdict, ...] = ()
    claims: tuple[ClaimVerdict, ...] = ()
    break_even: tuple[BreakEven, ...] = ()
    ledger: tuple[LedgerBar, ...] = ()
    curves: tuple[Curve, ...] = ()
    curve_distances: tuple[CurveDistance, ...] = ()
    trials: tuple[TrialRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    recompilations: tuple[Recompilation, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    def effect(
        self, workload: str, response: Response, kind: ContrastKind, subject: str = ""
    ) -> Effect | None:
        """Look up one effect; None when the design does not ask for it."""
        wanted = (workload, response, kind, subject)
        return next((e for e in self.effects if (e.workload, e.response, e.kind, e.subject) == wanted), None)

    @property
    def workloads_run(self) -> tuple[str, ...]:
        """The workloads of which at least one trial has ended, in the order of the study."""
        ran = {trial.workload for trial in self.trials if not trial.not_run}
        return tuple(choice.name for choice in self.study.workloads if choice.name in ran)

    def arms_of(self, workload: str) -> dict[str, ArmSummary]:
        """Arms of a workload by name, aliases included."""
        found: dict[str, ArmSummary] = {}
        for summary in (a for a in self.arms if a.workload == workload):
            for name in (summary.arm, *summary.aliases):
                found.setdefault(name, summary)
        return found

    def horizon(self, workload: str) -> Response:
        """The horizon that has more blocks behind it; cold when they tie (it includes what a first run pays)."""
        counts: dict[Response, int] = {}
        for response in RESPONSES[1:]:
            total = self.effect(workload, response, "total")
            counts[response] = len(total.estimate.blocks) if total and total.estimate else 0
        return "horizon_warm" if counts["horizon_warm"] > counts["horizon_cold"] else "horizon_cold"
