"""A number in SI units -> the text a person reads (durations, memory, speed-ups)."""

import math

BYTES_PER_GIB = 1024**3


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


def speedup_from_log(effect: float) -> float:
    """Turn an effect (difference of log times, positive = faster) into a speed-up factor (> 1 = faster)."""
    return math.exp(effect)


def percent_from_log(effect: float) -> float:
    """Turn an effect on log time into percent faster: `100 * (exp(effect) - 1)`."""
    return 100.0 * math.expm1(effect)
