"""What the analysis found about times -> frozen types: estimates, effects, what surrounds them, and the claim.

Legend: an effect is a difference of log times (positive = faster); a speed-up is `exp(effect)` (above 1 = faster).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ablate.analysis.statistics.inference import Estimate
from ablate.core.contrast import ContrastKind

Response = Literal["steady", "horizon_cold", "horizon_warm"]
RESPONSES: tuple[Response, ...] = ("steady", "horizon_cold", "horizon_warm")
Cache = Literal["cold", "warm"]
CACHE_OF: Mapping[Response, Cache] = {"horizon_cold": "cold", "horizon_warm": "warm"}
WhyAbsent = Literal["inert", "no such cell", "not comparable", "no complete block"]
ClaimWord = Literal["supported", "refuted", "undecided", "pilot", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A contrast for one response: estimated, or inert (0 by construction), or refused.

    Attributes:
        why: Why there is no estimate; None where there is one.
        cause: What makes it inert, or the trials not comparable.
        lacks: The first cells that the design would need for it.
        num_more_lacking: How many further cells it lacks.
        share: Part of the total, only where the total's interval (five blocks or more) excludes 1.
        claimed: Five blocks or more, Holm below .05, and the evidence says that the switch bites.
        num_weights: How many effective keys carry weight.
        dropped: Why blocks were omitted, one sentence each.
        assumes: What must hold for the number to be what its kind says; empty when the cells identify it.
    """

    response: Response
    kind: ContrastKind
    subject: str
    estimate: Estimate | None = None
    why: WhyAbsent | None = None
    cause: str = ""
    lacks: tuple[str, ...] = ()
    num_more_lacking: int = 0
    share: float | None = None
    claimed: bool = False
    num_weights: int = 0
    dropped: tuple[str, ...] = ()
    assumes: str = ""

    @property
    def inert(self) -> bool:
        return self.why == "inert"

    @property
    def refused(self) -> bool:
        return self.why is not None and not self.inert


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """A primary effect under another summary or another interval; shown beside it, never claimed."""

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
class BlocksNeeded:
    """Blocks for a wanted half-width (a ratio); None beyond 400."""

    half_width: float
    blocks: int | None


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How narrow the intervals of a family are, and how many blocks in all would make them narrower.

    Attributes:
        half_width: Half-width of the widest simultaneous interval, as a ratio (0.02 = 2 %).
        blocks_needed: Blocks in all for a half-width of 1, 2 and 3 %, from the spread between blocks.
    """

    response: Response
    kind: ContrastKind
    num_blocks: int
    half_width: float
    blocks_needed: tuple[BlocksNeeded, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FoldOver:
    """Whether the half fraction is enough for one response, or the other half must be run."""

    response: Response
    verdict: Literal["enough", "run the other half", "too few blocks"]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Largest `|total - (compile + sum of effects)|` over blocks: 0 up to rounding, or the analysis is wrong."""

    response: Response
    over: Literal["optimization", "layer"]
    num_blocks: int
    residual: float


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """The spec's claim under one reading against the total effect of one response.

    `place` is where the measured interval (or the number, without one) lies: `below`, `inside`, `overlapping` or
    `above` the claimed range, or empty.
    """

    response: Response
    reading: Literal["first reading", "second reading"]
    low: float
    high: float
    verdict: ClaimWord
    place: str
