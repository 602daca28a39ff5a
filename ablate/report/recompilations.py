"""Recompilations of a workload -> a table for the report: guards of the forward and the step, counted over seeds."""

from ablate.analysis.results.speed import Recompilation, Speed
from ablate.core.units import grouped
from ablate.report.cells import Table, TableCell, cell, table

MOST_ROWS = 12
LONGEST_GUARD = 150


def recompilation_table(speed: Speed) -> Table | None:
    """One row per guard, the earliest first; None where nothing was compiled again.

    The same guard of one cell and function is one row, with its first batch and the seeds that met it.
    """
    groups = grouped(((found.name, found.function, _guard(found)), found) for found in speed.recompilations)
    if not groups:
        return None
    ordered = sorted(groups.items(), key=lambda item: (item[1][0].step, item[0]))
    rows = [_row(key, found) for key, found in ordered[:MOST_ROWS]]
    if len(ordered) > MOST_ROWS:
        rest = cell(f"and {len(ordered) - MOST_ROWS} more", "tables/recompilations.csv", "grey")
        rows.append([rest, *(cell("", tone="grey") for _ in range(4))])
    return table(["cell", "function", "guard that failed", "first at", "seeds"], rows)


def _row(key: tuple[str, str, str], found: list[Recompilation]) -> list[TableCell]:
    name, *texts = key
    seeds = ", ".join(dict.fromkeys(str(f.seed) for f in found))
    first = cell(f"step {found[0].step}", found[0].batch)
    return [cell(name, tone="strong"), *map(cell, texts), first, cell(seeds)]


def _guard(found: Recompilation) -> str:
    """The guard without its number, its comment and, for a size, the size itself."""
    if found.gave_up:
        return "recompile limit reached: eager from here on"
    text = found.guard.partition(" # ")[0].partition(". expected")[0]
    prefix, mark, rest = text.partition(": ")
    text = rest if mark and all(part.isdigit() for part in prefix.split("/")) else text
    return text if len(text) <= LONGEST_GUARD else text[: LONGEST_GUARD - 1] + "…"
