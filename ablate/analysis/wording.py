"""A speed-up factor or interval -> the text a person reads."""

from __future__ import annotations


def format_factor(factor: float) -> str:
    """Write a speed-up factor: `1.04x`, `0.00731x`, `250x`."""
    return f"{factor:.2f}x" if 0.1 <= factor < 100 else f"{factor:.3g}x"


def format_interval(interval: tuple[float, float]) -> str:
    """Write an interval of speed-up factors: `1.02x to 1.06x`."""
    return f"{format_factor(interval[0])} to {format_factor(interval[1])}"
