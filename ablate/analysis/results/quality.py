"""How well a workload could be measured -> frozen types: its trials, drift, step times that settle, findings."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One attempt of a planned trial and what became of it; `superseded` attempts were followed by another."""

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
class RunOrder:
    """Whether times drift with the place of a trial in its block.

    Attributes:
        drift: Ratio of the time of the last trial of a block to that of the first, cells and blocks taken out.
        interval: 95 % block-t interval of it; None with fewer than three blocks.
    """

    drift: float
    interval: tuple[float, float] | None
    num_blocks: int


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Step times of one trial after its last compilation, cut where their level changes by more than 1 %.

    Attributes:
        verdict: `flat`: one level. `settles`: the last level lasts an epoch or more. `no steady state`: it does not.
        steady_from: First step of the last level.
        change: Ratio of the last level to the one before it; None when there is one level.
        num_levels: Number of levels.
    """

    name: str
    block: int
    verdict: Literal["flat", "settles", "no steady state", "too short"]
    steady_from: int
    change: float | None = None
    num_levels: int = 0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that a reader must know: what was omitted, refused or cannot be compared, and why."""

    kind: Literal["not comparable", "omitted", "refused", "note"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Every planned trial of one workload, and what a reader must know about them; `run_order` needs two blocks."""

    trials: tuple[TrialRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    stability: tuple[Stability, ...] = ()
    run_order: RunOrder | None = None
