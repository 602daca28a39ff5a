"""What the compiler did during a trial -> `Evidence`: compilations per step, recompile reasons, breaks, limit hits.

The compiler's own records are read after the fact; the timed steps only compare the length of a list.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo import utils as dynamo_utils

from ablate.core.evidence import CompileEvent, Evidence, GraphBreak, LimitHit

FUNCTIONS = ("forward", "optimizer_step")
NO_LIMIT = 1_000_000
LIMIT_WORDS = ("recompile_limit", "cache_size_limit", "recompilelimit")


class CompileWatch:
    """Notes during which step, and in which compiled function, each compilation happened.

    Make it before anything is compiled.

    Args:
        sizes: Sizes of a batch by name.
    """

    def __init__(self, sizes: Callable[[Any], Mapping[str, int]]) -> None:
        self._sizes = sizes
        dynamo_utils.set_compilation_metrics_limit(NO_LIMIT)
        dynamo_utils.clear_compilation_metrics()
        dynamo_utils.counters.clear()
        self._places: list[tuple[int, str, dict[str, int]]] = []
        self._breaks: Counter[tuple[str, str]] = Counter()
        self._seen_breaks: Counter[str] = Counter()

    def note(self, step: int, function: str, batch: Any = None) -> None:
        """Attribute the compilations since the last call to `function` during `step`, which trained on `batch`."""
        new = len(dynamo_utils._compilation_metrics) - len(self._places)
        if not new:
            return
        self._places.extend([(step, function, {} if batch is None else dict(self._sizes(batch)))] * new)
        breaks = Counter({str(reason): count for reason, count in dynamo_utils.counters["graph_break"].items()})
        for reason, count in (breaks - self._seen_breaks).items():
            self._breaks[function, reason] += count
        self._seen_breaks = breaks

    @property
    def compile_steps(self) -> list[int]:
        """Step of everything the compiler did before running: graphs, backward passes, failures.

        Recordings of CUDA Graphs are left out: with a size per batch they never end, and they are part of the epoch.
        """
        return [step for step, _, _, metrics in self._placed() if not metrics.is_runtime]

    @property
    def compile_s(self) -> float:
        """Seconds inside the compiler, backward passes included."""
        return sum(((m.duration_us or 0) / 1e6 for _, _, _, m in self._placed() if not m.is_runtime), 0.0)

    def collect(self, *, compiled: bool) -> Evidence:
        """Gather everything the compiler recorded.

        Args:
            compiled: Whether the cell compiles at all; an eager cell has true zeros, not absent numbers.
        """
        events, limits = self._events(), self._limit_hits()
        breaks = tuple(
            GraphBreak(reason=f"{function}: {_first_line(reason)}", location=_location(reason), count=count)
            for (function, reason), count in self._breaks.items()
        )
        counters: dict[str, float] = {
            "graphs": dynamo_utils.counters["stats"]["unique_graphs"],
            "graph_breaks": sum(count for (function, _), count in self._breaks.items() if function == "forward"),
            "limit_hits": len(limits),
            "compile_s": self.compile_s,
        }
        for function in FUNCTIONS:
            own = [event for event in events if event.function == function and event.failure is None]
            counters[f"compiles.{function}"] = len(own)
            counters[f"recompiles.{function}"] = sum(event.reason is not None for event in own)
        if compiled and torch.cuda.is_available():
            from torch._inductor.cudagraph_trees import get_manager

            counters |= count_cudagraphs(get_manager(torch.cuda.current_device(), create_if_none_exists=False))
        return Evidence(events=tuple(events), graph_breaks=breaks, limit_hits=tuple(limits), counters=counters)

    def _placed(self) -> list[tuple[int, str, dict[str, int], Any]]:
        found = zip(self._places, dynamo_utils.get_compilation_metrics(), strict=False)
        return [(*place, metrics) for place, metrics in found]

    def _events(self) -> list[CompileEvent]:
        """Compilations that made a graph or failed; frames with nothing to compile (wrappers, stubs) are left out."""
        return [
            CompileEvent(
                step=step,
                function=function,
                seconds=m.entire_frame_compile_time_s or 0.0,
                reason=_guard(m.recompile_reason),
                failure=_clean(m.fail_reason),
                sizes=sizes,
            )
            for step, function, sizes, m in self._placed()
            if (m.graph_op_count or m.fail_type) and not _is_limit(m)
        ]

    def _limit_hits(self) -> list[LimitHit]:
        return [
            LimitHit(step=step, function=function, message=_clean(m.fail_reason) or "", sizes=sizes)
            for step, function, sizes, m in self._placed()
            if _is_limit(m)
        ]


def count_compilations() -> int:
    """How often this process compiled anything so far, since a watch was made; recordings of CUDA Graphs are none."""
    return sum(not metrics.is_runtime for metrics in dynamo_utils.get_compilation_metrics())


def _is_limit(metrics: Any) -> bool:
    text = f"{metrics.fail_type or ''} {metrics.fail_reason or ''}".lower()
    return any(word in text for word in LIMIT_WORDS)


def _clean(text: str | None) -> str | None:
    return " ".join(text.split()) if text else None


def _guard(text: str | None) -> str | None:
    """The failed guard and the line that needed it, without the stack trace (which names folders of this machine)."""
    return _clean(text.partition("User stack trace:")[0]) if text else None


def _first_line(reason: Any) -> str:
    return str(reason).strip().splitlines()[0] if str(reason).strip() else "unknown"


def _location(reason: Any) -> str:
    """The user's `file:line` from a break's text, empty when the compiler does not name one."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip().startswith('File "')]
    if not lines:
        return ""
    parts = lines[-1].split('"')
    line = parts[2].split("line ")[-1].split(",")[0] if "line " in parts[2] else "?"
    return f"{parts[1]}:{line}"


def count_cudagraphs(manager: Any) -> dict[str, float]:
    """CUDA Graphs that the inductor's manager recorded (None: it made no manager), and those that it skipped.

    Every recording is a node of the manager's trees; the first run of each new size is a warm-up and is none.
    """
    nodes = [node for roots in manager.roots.values() for node in roots] if manager is not None else []
    for node in nodes:  # grows while it is read
        nodes.extend(child for children in node.children.values() for child in children)
    skips = dynamo_utils.counters["inductor"]["cudagraph_skips"]
    return {"cudagraph_recordings": len(nodes), "cudagraph_skips": skips}
