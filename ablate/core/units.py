"""Numbers in SI units, and lists -> the text a person reads (durations, memory, speed-ups, names), and groups of it."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

BYTES_PER_GIB = 1024**3
Key = TypeVar("Key")
Item = TypeVar("Item")


def format_duration(seconds: float) -> str:
    """Write a duration as a person would say it: `420 ms`, `35.2 s`, `8 min 5 s`, `2 h 10 min`."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def percent_from_log(effect: float) -> float:
    """Turn an effect on log time into percent faster: `100 * (exp(effect) - 1)`."""
    return 100.0 * math.expm1(effect)


def name_some(names: Sequence[str], most: int = 4, joint: str = ", ") -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    return joint.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of every key, both in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
