"""What a trial collects beside times -> `Evidence`: graph breaks, compiles, recompiles with reasons, limit hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class CompileEvent:
    """One compilation inside a trial.

    Attributes:
        step: Training step (from 0) during which it happened.
        function: `forward` (its backward pass included) or `optimizer_step`.
        seconds: Wall time of the compilation.
        reason: The failed guard for a recompilation, None for the first compile of a code object.
        failure: Why the compiler gave up, None when it did not.
        sizes: Sizes of the batch that caused it: nodes by type, edges by `source relation target`.
    """

    step: int
    function: str
    seconds: float
    reason: str | None = None
    failure: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GraphBreak:
    """A place where the compiler split the graph; `location` is `file:line` of the user's source when known."""

    reason: str
    location: str
    count: int


@dataclass(frozen=True, kw_only=True)
class LimitHit:
    """The recompile limit was reached: from this step on the function ran eagerly for new shapes.

    `sizes` are those of the batch that hit it, as in `CompileEvent`.
    """

    step: int
    function: str
    message: str
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything collected in one trial.

    Attributes:
        events: Compilations in order.
        graph_breaks: Distinct breaks with counts.
        limit_hits: Recompile-limit hits in order.
        counters: Numbers that expectations refer to. Keys: `compiles.forward`, `compiles.optimizer_step`,
            `recompiles.forward`, `recompiles.optimizer_step`, `graphs`, `graph_breaks` (of the forward: torch breaks
            the optimizer step itself, on purpose), `limit_hits`, `cudagraph_recordings`, `cudagraph_skips`,
            `syncs_per_step` (of the step as the cell runs it, compiled code included), `eager_syncs_per_step` (the
            same step with nothing compiled), `encoded_rows` (of the first batch), `compile_s` (backward passes, which
            have no event, included). A key that was not measured is absent, never 0.
        sync_sources: `file:line` of calls that would stall a device -> count in the audited step.
        eager_sync_sources: The same with nothing compiled; what is here and not there vanished under the compiler.
        stages: Seconds per step by stage, from a profiled pass after the training (profiling itself costs time:
            compare shares). `forward` is undivided where it is compiled.
    """

    events: tuple[CompileEvent, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    limit_hits: tuple[LimitHit, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    sync_sources: Mapping[str, int] = field(default_factory=dict)
    eager_sync_sources: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
