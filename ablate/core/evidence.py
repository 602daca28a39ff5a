"""What a trial collects beside times -> `Evidence`: graph breaks, compiles, recompiles; and what each counter is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

LaterStage = Literal["machine", "evidence", "prediction", "counters", "audit", "profile"]


@dataclass(frozen=True, kw_only=True)
class Counter:
    """One number of the evidence.

    Attributes:
        title: Heading of its column.
        unit: One of what it counts, e.g. `compilation` or `s`.
        of: What that is done to or with, ready to append to the unit.
        device_only: It costs time only where a device can stall, so on a CPU it says nothing about speed.
        at_start: It is paid when a training starts, not in every epoch.
        noisy: It is a time, so that a small difference means nothing.
    """

    title: str
    unit: str
    of: str = ""
    device_only: bool = False
    at_start: bool = False
    noisy: bool = False


COUNTERS: Mapping[str, Counter] = {
    "compiles.forward": Counter(title="forward compiles", unit="compilation", of="of the forward", at_start=True),
    "compiles.optimizer_step": Counter(
        title="step compiles", unit="compilation", of="of the optimizer step", at_start=True
    ),
    "recompiles.forward": Counter(title="forward recompiles", unit="recompilation", of="of the forward", at_start=True),
    "recompiles.optimizer_step": Counter(
        title="step recompiles", unit="recompilation", of="of the optimizer step", at_start=True
    ),
    "graphs": Counter(title="graphs", unit="graph"),
    # of the forward: torch breaks the optimizer step itself, on purpose
    "graph_breaks": Counter(title="graph breaks", unit="graph break", of="of the forward"),
    "limit_hits": Counter(title="recompile limits reached", unit="recompile limit", of="reached"),
    "cudagraph_recordings": Counter(title="CUDA-graph recordings", unit="recording", of="of a CUDA graph"),
    "cudagraph_skips": Counter(title="CUDA graphs skipped", unit="CUDA graph", of="skipped"),
    # of the step as the cell runs it, compiled code included; and of the same step with nothing compiled. Both alike:
    # on a GPU waits that torch reports, those for copies of the batch among them; elsewhere operators that would wait
    "syncs_per_step": Counter(title="syncs per step", unit="sync", of="per step", device_only=True),
    "eager_syncs_per_step": Counter(title="syncs per eager step", unit="sync", of="per eager step", device_only=True),
    # backward passes, which have no event, included
    "compile_s": Counter(title="seconds compiling", unit="s", of="in the compiler", noisy=True),
}


def counter_of(name: str, extra: Mapping[str, Counter] = MappingProxyType({})) -> Counter:
    """Look up what a counter is: one that an optimization brings, one of the table, or else its name is its title."""
    return extra.get(name) or COUNTERS.get(name) or Counter(title=name.replace("_", " "), unit=name.replace("_", " "))


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
        counters: Numbers that expectations refer to, by a name of `COUNTERS` or one that an optimization brings. What
            was not measured is absent, never 0.
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


@dataclass(frozen=True, kw_only=True)
class FailedStage:
    """A stage after the training that failed: what it would have added is missing, what the training measured counts.

    Attributes:
        stage: `machine`: its second snapshot. `evidence`: what the compiler did. `prediction`: metric and predictions.
            `counters`: those that optimizations bring. `audit`: syncs. `profile`: seconds by stage.
        reason: One sentence.
        traceback: The traceback, or the last output of a process that ended meanwhile.
    """

    stage: LaterStage
    reason: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.stage} failed after the training: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """What the driver of a GPU tells at one moment; None or empty = it does not tell.

    Attributes:
        throttles: What holds the clocks back at this moment.
        throttled_s: For how long, by reason, since the driver was loaded.
        num_foreign_processes: Processes on the GPU but the trial's.
    """

    driver: str | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    max_sm_clock_mhz: float | None = None
    max_memory_clock_mhz: float | None = None
    power_limit_w: float | None = None
    throttles: tuple[str, ...] = ()
    throttled_s: Mapping[str, float] = field(default_factory=dict)
    num_foreign_processes: int | None = None


@dataclass(frozen=True, kw_only=True)
class MachineSnapshot:
    """The machine at one moment; None or empty = it does not tell.

    Attributes:
        load_average: Of the last minute.
        governors: Of the CPUs.
        cpu_clock_mhz: Mean over the CPUs.
        at_s: When, on the clock of `time.monotonic`.
        busy_s: CPU time that everything on this host has used so far, time stolen by a hypervisor included.
        own_s: CPU time that the trial's session has used so far.
    """

    load_average: float | None = None
    governors: tuple[str, ...] = ()
    cpu_clock_mhz: float | None = None
    gpu: Gpu = field(default_factory=Gpu)
    at_s: float | None = None
    busy_s: float | None = None
    own_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine before and after a training, and how many CPUs others kept busy on average in between."""

    start: MachineSnapshot = field(default_factory=MachineSnapshot)
    end: MachineSnapshot = field(default_factory=MachineSnapshot)
    foreign_cpus: float | None = None
