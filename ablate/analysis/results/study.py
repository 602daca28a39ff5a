"""What the analysis found -> frozen types, stored as `results.json`, the only input of figures, PDF and tables.

Effects are in `effect_results`, loss curves and equivalence in `training_results`; both can be imported from here.

Format history (`format` in the JSON):
1  first version.
2  `training`, `windows`, `margin_tests`, `deviations`, `agreement`, `untested`: whether the training changed.

Legend: an effect is a difference of log times (positive = faster); a speed-up is `exp(effect)` (above 1 = faster).
Every list is flat and names its workload, so that it is also a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ablate.analysis.results.effects import (
    CACHE_OF,
    RESPONSES,
    Cache,
    ClaimVerdict,
    ClaimWord,
    Effect,
    Estimate,
    FoldOver,
    Grade,
    Identity,
    OrderRange,
    Precision,
    Response,
    RunOrder,
    Sensitivity,
    Stability,
)
from ablate.analysis.results.training import (
    Agreement,
    Curve,
    CurveDistance,
    Deviation,
    MarginRow,
    TrainingVerdict,
    Untested,
    WindowRow,
)
from ablate.analysis.speed.recompilations import Recompilation
from ablate.core.contrast import ContrastKind
from ablate.core.study import Study

__all__ = [
    "CACHE_OF",
    "FORMAT",
    "RESPONSES",
    "Agreement",
    "ArmSummary",
    "BreakEven",
    "Cache",
    "ClaimVerdict",
    "ClaimWord",
    "Curve",
    "CurveDistance",
    "Deviation",
    "Effect",
    "Estimate",
    "EvidenceVerdict",
    "EvidenceWord",
    "ExpectationResult",
    "Finding",
    "FoldOver",
    "Grade",
    "Headline",
    "Identity",
    "LedgerBar",
    "MarginRow",
    "OrderRange",
    "Precision",
    "Response",
    "Results",
    "RunOrder",
    "Sensitivity",
    "Stability",
    "TrainingVerdict",
    "TrialRow",
    "Untested",
    "WindowRow",
]  # fmt: skip

FORMAT = 2
EvidenceWord = Literal["bites", "vacuous", "inert", "structural", "not measured"]


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
    training: tuple[TrainingVerdict, ...] = ()
    windows: tuple[WindowRow, ...] = ()
    margin_tests: tuple[MarginRow, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    untested: tuple[Untested, ...] = ()
    trials: tuple[TrialRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    recompilations: tuple[Recompilation, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    def effect(self, workload: str, response: Response, kind: ContrastKind, subject: str = "") -> Effect | None:
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
