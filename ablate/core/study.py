"""One question -> `Study`: the frozen, validated form of a spec file, shared by every stage."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ablate.core.cell import Execution
from ablate.core.optimization import OffMeans, OptimizationInfo
from ablate.core.serialize import to_dict
from ablate.core.workload import WorkloadInfo

DesignKind = Literal["factorial", "fraction", "ladder", "leave-one-out", "add-one-in", "cells"]
LOOKS = (5, 8, 12, 20, 40)
FEWEST_VARYING: Mapping[DesignKind, int] = {
    "factorial": 1, "fraction": 4, "ladder": 2, "leave-one-out": 1, "add-one-in": 1, "cells": 0
}  # fmt: skip
CachePolicy = Literal["per-cell", "shared", "none"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published claim: intervals of the speed-up factor full versus eager, under two readings."""

    speedup: tuple[float, float]
    alternative: tuple[float, float] | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One optimization as used in a study.

    Attributes:
        info: What the optimization declares.
        off_means: Which off behavior counts as off in this study.
        off: The off level.
        on: The on level.
        setting: `both` makes it vary in the design; `on` or `off` fixes it in every compiled cell.
        path: Absolute path of the outside file that defines it, if any.
        digest: Digest of that file's content, so that an edited file is another study.
    """

    info: OptimizationInfo
    off_means: OffMeans
    off: str
    on: str
    setting: Literal["both", "on", "off"] = "both"
    path: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def emulation(self) -> str | None:
        """Label of the emulation behind the off level, or None when off is what users get today."""
        return self.info.emulations.get(self.off)


@dataclass(frozen=True, kw_only=True)
class WorkloadChoice:
    """One workload as used in a study.

    Attributes:
        info: What the workload declares.
        options: Every option of the workload with its value, defaults included, as plain values.
        path: Absolute path of the outside file that defines it, if any.
        digest: Digest of that file's content.
    """

    info: WorkloadInfo
    options: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def identity(self) -> str:
        """Digest (16 hex digits) of what the workload trains: its options and, for an outside file, its content.

        It belongs to the identity of the workload's trials, not to the study's hash, so that a workload more extends
        a study, an outside one too.
        """
        return _digest([self.name, to_dict(self.options), self.digest])


@dataclass(frozen=True, kw_only=True)
class ExplicitCell:
    """A cell written in the spec: an arm name, or an execution mode with `on`/`off`/level per optimization."""

    arm: str | None = None
    execution: Literal["eager", "compiled"] = "compiled"
    levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long a trial trains: `epochs` of `steps_per_epoch` steps; the horizon is extrapolated to `horizon_epochs`."""

    epochs: int = 5
    steps_per_epoch: int = 200
    horizon_epochs: int = 10


@dataclass(frozen=True, kw_only=True)
class Training:
    """How any workload is trained. `lr=None` takes the workload's own learning rate.

    Attributes:
        batch_size: Samples per batch.
        optimizer: Name in `torch.optim`, lower case: adam, adamw, sgd.
        schedule: constant, linear or cosine; stepped every step.
    """

    batch_size: int = 512
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float | None = None
    schedule: Literal["constant", "linear", "cosine"] = "linear"


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """How batches reach the model: `live` samples while training, `replay` keeps sampled batches in memory."""

    mode: Literal["live", "replay"] = "live"
    num_workers: int = 0
    pin_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """What still counts as the same training, and which parity trials decide it; fixed before any trial.

    Attributes:
        parity: Which parity trials run: `default` (eager, naive, full and leave-one-out arms, first block, first
            window), `all` (every setting of the design, every block and window), or `off`.
        arms: With `default`, only these arms and eager; empty = as said above.
        margin: Loss difference per workload that still counts as equal, in units of the loss.
        metric_margin: The same for the validation metric, in its units.
        windows: Steps where parity runs restart from an eager checkpoint: numbers, `middle`, or `end` (50 before it).
        window_steps: Steps of a window.
        reruns: Eager reruns with initial weights perturbed by one ulp, per seed and window. An arm that is as good as
            a rerun is the first of them to lose its way in one window of `reruns + 1` at most, so more of them flag
            fewer correct arms.
    """

    parity: Literal["default", "all", "off"] = "default"
    arms: tuple[str, ...] = ()
    margin: Mapping[str, float] = field(default_factory=dict)
    metric_margin: Mapping[str, float] = field(default_factory=dict)
    windows: tuple[int | str, ...] = (0, 20, "middle", "end")
    window_steps: int = 60
    reruns: int = 5


@dataclass(frozen=True, kw_only=True)
class Sequential:
    """Add whole blocks until the widest simultaneous interval of the optimizations is narrow enough.

    Attributes:
        target: Wanted half-width of that interval, as a ratio (0.02 = within 2 %).
        response: The time whose intervals decide.
        most: Largest number of blocks.
    """

    target: float
    response: Literal["steady", "horizon_warm", "horizon_cold"] = "steady"
    most: int = 40


@dataclass(frozen=True, kw_only=True)
class Study:
    """One question, one spec file, one MLflow experiment, one ledger."""

    name: str
    question: str
    claim: Claim | None
    workloads: tuple[WorkloadChoice, ...]
    factors: tuple[Factor, ...]
    compile_step: bool
    compile_backend: str
    design: DesignKind
    cells: tuple[ExplicitCell, ...]
    blocks: int
    seed: int
    timing: Timing
    training: Training
    loader: LoaderOptions
    compile_cache: CachePolicy
    equivalence: Equivalence
    device: Literal["cpu", "cuda"]
    num_threads: int | None
    trial_timeout_s: float
    tracking_uri: str | None
    profile: str | None
    spec_path: str
    spec_text: str
    sequential: Sequential | None = None
    ledger: str | None = None

    @property
    def varying(self) -> tuple[Factor, ...]:
        """The factors that the design varies, in spec order."""
        return tuple(f for f in self.factors if f.setting == "both")

    @property
    def hash(self) -> str:
        """Digest (16 hex digits) of what the numbers of every trial depend on.

        Omitted: the question, the claim, block count, when to stop, the workloads (each has an identity of its own),
        tracking, ledger, and the sentences of the optimizations. More blocks or workloads, or the other half of a
        fraction, extend a study; anything else is another study, an edited outside file of an optimization included.
        """
        content: dict[str, Any] = {k: v for k, v in to_dict(self).items() if k not in _NOT_HASHED}
        content["design"] = "factorial" if self.design == "fraction" else self.design  # a half extends to the whole
        content["factors"] = [[f.name, f.off, f.on, f.setting, f.digest] for f in self.factors]
        return _digest(content)

    def workload(self, name: str) -> WorkloadChoice:
        """The workload of that name.

        Raises:
            KeyError: the study does not train it.
        """
        found = next((choice for choice in self.workloads if choice.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def margins_of(self, workload: str) -> dict[str, float]:
        """The margins stated for a workload: `loss`, `metric`; absent where none is stated."""
        stated = {"loss": self.equivalence.margin, "metric": self.equivalence.metric_margin}
        return {kind: margins[workload] for kind, margins in stated.items() if workload in margins}

    @property
    def supports(self) -> frozenset[str]:
        """What every workload of the study supports (a spec refuses workloads that differ in what matters)."""
        return frozenset.intersection(*(frozenset(choice.info.supports) for choice in self.workloads))

    def inert_reason(self, factor: Factor, execution: Execution) -> str | None:
        """Say why an optimization cannot act in cells of an execution mode; None where it can."""
        return factor.info.inert_reason(
            execution=execution, compile_step=self.compile_step, device=self.device, supports=self.supports
        )

    def acting(self, execution: Execution) -> tuple[Factor, ...]:
        """The varying optimizations that can act in cells of an execution mode, in spec order."""
        return tuple(f for f in self.varying if self.inert_reason(f, execution) is None)


_NOT_HASHED = {"question", "claim", "workloads", "blocks", "tracking_uri", "spec_path", "spec_text", "equivalence"}
_NOT_HASHED |= {"trial_timeout_s", "sequential", "ledger"}


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
