"""What a workload declares about itself -> pure data that spec, design and analysis can use without torch."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a workload that has none."""


@dataclass(frozen=True, kw_only=True)
class WorkloadInfo:
    """What a workload declares about itself.

    Attributes:
        name: Key in the spec, e.g. `hm/user-churn`.
        title: Short human name.
        lr: Learning rate used when the spec gives none.
        metric: Name of the validation metric; empty for a workload that predicts nothing.
        metric_unit: Unit of the metric, e.g. `AUROC (0..1)`.
        higher_is_better: Direction of the metric.
        options: The workload's own frozen dataclass, every field made by `option`; a spec sets them by workload.
        supports: What its model can be built with beyond what any training has, e.g. `hetero-keys`: an optimization
            that requires `supports:hetero-keys` is inert for workloads without it.
    """

    name: str
    title: str
    lr: float
    metric: str = ""
    metric_unit: str = ""
    higher_is_better: bool = True
    options: type[Any] = field(default=NoOptions, metadata={"stored": False})
    supports: tuple[str, ...] = ()


def option(
    default: Any,
    description: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    one_of: Sequence[str] = (),
) -> Any:
    """One field of a workload's options: its default, what a reader of the spec needs to know, and its bounds.

    The type hint of the field is `bool`, `int`, `float`, `str`, a tuple of one of them (`tuple[int, ...]`), or one of
    these `| None`. Bounds of a tuple hold for each of its items.
    """
    bounds = {"description": description, "at_least": at_least, "at_most": at_most, "below": below}
    return dataclasses.field(default=default, metadata={**bounds, "one_of": tuple(one_of)})
