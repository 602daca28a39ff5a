"""A reported number -> `Contrast`: weights on the log times of the cells of one workload."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ContrastKind = Literal[
    "total",
    "compile",
    "optimization",
    "layer",
    "interaction",
    "moebius",
    "lack-of-fit",
    "leave-one-out",
    "add-one-in",
    "ladder",
    "level",
    "eager-optimization",
    "a/a",
]


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """`effect = sum over keys of weights[key] * log T[key]`; positive = faster, `exp(effect)` = speed-up factor.

    Attributes:
        kind: What the number answers.
        subject: Optimization, layer, pair (`a × b`) or level it is about; empty for total and compile.
        weights: Weight per effective key, zero weights removed. Empty = 0 by construction (inert).
        why_inert: Reason when the weights are empty.
        assumes: What must hold for the number to be what its kind says; empty when the cells identify it.
    """

    kind: ContrastKind
    subject: str
    weights: Mapping[str, float] = field(default_factory=dict)
    why_inert: str | None = None
    assumes: str = ""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A number that this design cannot identify: the first of the cells that it would need, and how many more."""

    kind: ContrastKind
    subject: str
    missing: tuple[str, ...]
    num_more: int = 0
