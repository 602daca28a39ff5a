"""What made a workload faster, or not -> frozen types: arms, effects, evidence, break-even, where the horizon goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ablate.analysis.results.effects import (
    RESPONSES,
    Cache,
    ClaimVerdict,
    Effect,
    FoldOver,
    Identity,
    OrderRange,
    Precision,
    Response,
    Sensitivity,
)
from ablate.core.contrast import ContrastKind

EvidenceWord = Literal["bites", "vacuous", "inert", "structural", "not measured"]
WhyNotMeasured = Literal["nothing declared", "no pair of cells", "no pair of trials"]


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """One effective key that has a name, over blocks; times are medians over blocks, in seconds.

    Attributes:
        arm: Its first name; `aliases` are the other names that share the measurement.
        versus_eager: Effect of eager against this arm, per response.
        counters: Mean of each evidence counter over trials.
        compile_cold_s, compile_warm_s: Median time inside the compiler, by state of the compile cache.
        metric: Median of the validation metric.
        flags: `not really compiled ...`, `no steady state`, `prediction failed after the training`.
    """

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

    @property
    def holds(self) -> bool:
        """The counter moved as declared in at least half of the pairs, and more often than the other way."""
        return 2 * self.num_as_expected >= self.num_pairs > 0 and self.num_as_expected > self.num_opposite


@dataclass(frozen=True, kw_only=True)
class EvidenceVerdict:
    """Whether an optimization did anything, by what it declared beforehand.

    Attributes:
        why: Why nothing was measured; None where something was, or it is inert.
        cause: What makes it inert.
        emulation: Label of its off level, where that is an emulation.
        jointly: The design has no two cells that differ only in it, so naive was compared with full.
    """

    optimization: str
    verdict: EvidenceWord
    why: WhyNotMeasured | None = None
    cause: str = ""
    expectations: tuple[ExpectationResult, ...] = ()
    emulation: str = ""
    jointly: bool = False


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """Epochs after which `full` has paid back its longer start against eager (medians over blocks)."""

    cache: Cache
    verdict: Literal["after", "at once", "never"]
    epochs: float | None
    startup_difference_s: float
    saving_per_epoch_s: float


@dataclass(frozen=True, kw_only=True)
class LedgerBar:
    """Where the horizon of an arm goes, in seconds (medians over blocks); the parts add up to the horizon.

    Attributes:
        overlaps: A device worked while the host waited for batches: that wait is an upper bound of what the loader
            costs, and the training a lower one.
    """

    arm: str
    cache: Cache
    horizon_s: float
    compile_s: float
    loader_wait_s: float
    training_s: float
    overlaps: bool = False


@dataclass(frozen=True, kw_only=True)
class Recompilation:
    """One recompilation; which ones there are depends on the first batch, hence on the seed.

    Attributes:
        name: Arm, or the effective key of a cell without one.
        guard: What held for the code that was there and no longer did.
        batch: Nodes by type and number of edges of the batch that caused it.
        gave_up: The recompile limit was reached: no new code, eager from here on.
    """

    block: int
    seed: int
    name: str
    step: int
    function: str
    guard: str
    batch: str
    gave_up: bool = False


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Everything about the times of one workload, and what the optimizations did for them."""

    horizon_epochs: int
    arms: tuple[ArmSummary, ...] = ()
    effects: tuple[Effect, ...] = ()
    identities: tuple[Identity, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    order_ranges: tuple[OrderRange, ...] = ()
    precision: tuple[Precision, ...] = ()
    fold_over: tuple[FoldOver, ...] = ()
    evidence: tuple[EvidenceVerdict, ...] = ()
    claims: tuple[ClaimVerdict, ...] = ()
    break_even: tuple[BreakEven, ...] = ()
    ledger: tuple[LedgerBar, ...] = ()
    recompilations: tuple[Recompilation, ...] = ()

    def effect(self, response: Response, kind: ContrastKind, subject: str = "") -> Effect | None:
        """Look up one effect; None when the design does not ask for it."""
        wanted = (response, kind, subject)
        return next((e for e in self.effects if (e.response, e.kind, e.subject) == wanted), None)

    def of_kind(self, kind: ContrastKind, response: Response = "steady") -> list[Effect]:
        """Effects of one kind and response, one per subject."""
        return [e for e in self.effects if (e.response, e.kind) == (response, kind)]

    def verdict(self, optimization: str) -> EvidenceVerdict | None:
        """The evidence about one optimization; None for what is none, or does not vary."""
        return next((v for v in self.evidence if v.optimization == optimization), None)

    @property
    def named_arms(self) -> dict[str, ArmSummary]:
        """Arms by name, aliases included."""
        found: dict[str, ArmSummary] = {}
        for summary in self.arms:
            for name in (summary.arm, *summary.aliases):
                found.setdefault(name, summary)
        return found

    @property
    def horizon(self) -> Response:
        """The horizon that has more blocks behind it; cold when they tie (it includes what a first run pays)."""
        totals = {r: self.effect(r, "total") for r in RESPONSES[1:]}
        return max(totals, key=lambda r: len(e.estimate.blocks) if (e := totals[r]) and e.estimate else 0)
