"""What a training raised -> the reason that its record gives: one sentence, whatever kind of error it was."""

from __future__ import annotations

import torch

MEMORY_WORDS = ("can't allocate memory", "out of memory", "Cannot allocate memory", "bad_alloc")


def explain_failure(error: BaseException) -> str:
    """Name the error and its first line; lack of memory is named as such, whichever library noticed it."""
    said = str(error).strip().splitlines()
    line = said[0] if said else "no message"
    if lacks_memory(error):
        told = "" if not said else f": {next((part for part in said if _names_memory(part)), line).strip()}"
        return f"out of memory ({type(error).__name__}{told})"
    return f"{type(error).__name__}: {line}"


def lacks_memory(error: BaseException) -> bool:
    """Tell whether memory ran out, on the host or on the device."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _names_memory(str(error))


def _names_memory(text: str) -> bool:
    return any(words in text for words in MEMORY_WORDS)
