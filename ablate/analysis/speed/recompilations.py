"""Trial records -> every recompilation with the guard that failed and the batch that failed it, per seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ablate.analysis.results.speed import Recompilation
from ablate.core.record import TrialRecord

LONGEST_GUARD = 300


def find_recompilations(records: Iterable[TrialRecord]) -> Iterator[Recompilation]:
    """List the recompilations of trials, in their order, and the recompile limits they hit."""
    for record in records:
        identity = record.identity
        name = identity.arms[0] if identity.arms else identity.effective_key
        ends = [(e.step, e.function, e.reason, e.sizes, False) for e in record.evidence.events if e.reason]
        ends += [(h.step, h.function, h.message, h.sizes, True) for h in record.evidence.limit_hits]
        for step, function, reason, sizes, gave_up in sorted(ends, key=lambda end: end[0]):
            yield Recompilation(
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
