"""Trial records -> every recompilation with the guard that failed and the batch that failed it, per seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ablate.core.record import TrialRecord

LONGEST_GUARD = 300


@dataclass(frozen=True, kw_only=True)
class Recompilation:
    """One recompilation; which ones there are depends on the first batch, hence on the seed.

    Attributes:
        name: Arm, or the effective key of a cell without one.
        guard: What held for the code that was there and no longer did.
        batch: Nodes by type and number of edges of the batch that caused it.
        gave_up: The recompile limit was reached: no new code, eager from here on.
    """

    workload: str
    block: int
    seed: int
    name: str
    step: int
    function: str
    guard: str
    batch: str
    gave_up: bool = False


def find_recompilations(records: Iterable[TrialRecord]) -> Iterator[Recompilation]:
    """List the recompilations of trials, in their order, and the recompile limits they hit."""
    for record in records:
        identity = record.identity
        name = identity.arms[0] if identity.arms else identity.effective_key
        ends = [(e.step, e.function, e.reason, e.sizes, False) for e in record.evidence.events if e.reason]
        ends += [(h.step, h.function, h.message, h.sizes, True) for h in record.evidence.limit_hits]
        for step, function, reason, sizes, gave_up in sorted(ends, key=lambda end: end[0]):
            yield Recompilation(
                workload=identity.workload,
                block=identity.block,
                seed=identity.seed,
                name=name,
                step=step,
                function=function,
                guard=(reason or "")[:LONGEST_GUARD],
                batch=describe_sizes(sizes),
                gave_up=gave_up,
            )


def describe_sizes(sizes: Mapping[str, int]) -> str:
    """Nodes by type and all edges of a batch: `article 120, customer 64, transactions 300; 840 edges`."""
    if not sizes:
        return ""
    nodes = ", ".join(f"{name} {number}" for name, number in sizes.items() if " " not in name)
    return f"{nodes}; {sum(number for name, number in sizes.items() if ' ' in name)} edges"
