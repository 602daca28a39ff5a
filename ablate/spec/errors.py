"""Faults found in a spec -> one screen of text: `file:line:column: what is wrong`, the line, a caret."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ablate.core.errors import UserError

MOST_SHOWN = 12
WIDTH = 100
UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
PASSWORD = re.compile(r"(?<=://)[^/@\s]*:[^@\s]*(?=@)|(?<=password=)[^&\s]+")  # in the address of a server


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in the spec (line and column from 1), or in an option of the command line when `option` is set."""

    line: int = 1
    column: int = 1
    option: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is wrong, and where."""

    position: Position
    text: str


class SpecError(UserError):
    """A spec with faults; its text is the whole screen, `faults` are its parts."""

    def __init__(self, faults: Sequence[Fault], *, path: str, source: str) -> None:
        self.faults = tuple(_in_reading_order(faults))
        super().__init__(render(self.faults, path=path, source=source))


def render(faults: Sequence[Fault], *, path: str, source: str) -> str:
    """Write faults for a person, at most 12 of them, each with its source line and a caret below the place.

    Args:
        faults: In the order in which they are shown.
        path: Name of the spec as the user gave it.
        source: Text of the spec; shown with unprintable characters replaced, never interpreted.
    """
    lines = re.split(r"\r\n|[\n\r\x85\u2028\u2029]", source)
    blocks = [_block(fault, path, lines) for fault in faults[:MOST_SHOWN]]
    if len(faults) > MOST_SHOWN:
        blocks.append(f"and {len(faults) - MOST_SHOWN} more")
    return "\n".join(blocks)


def clean(text: str, limit: int = 60) -> str:
    """Make a piece of a spec safe to print: unprintable characters and passwords replaced, cut at `limit`."""
    safe = _without_passwords(UNPRINTABLE.sub("?", text))
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def _without_passwords(text: str) -> str:
    """The same text, as long as before."""
    return PASSWORD.sub(lambda found: "*" * len(found[0]), text)


def _in_reading_order(faults: Iterable[Fault]) -> list[Fault]:
    distinct = dict.fromkeys(faults)
    return sorted(distinct, key=lambda f: (f.position.option or "", f.position.line, f.position.column))


def _block(fault: Fault, path: str, lines: Sequence[str]) -> str:
    position = fault.position
    if position.option is not None:
        return f"command line, {position.option}: {fault.text}"
    head = f"{path}:{position.line}:{position.column}: {fault.text}"
    if position.line > len(lines) or not lines[position.line - 1].strip():
        return head
    line = _without_passwords(UNPRINTABLE.sub(" ", lines[position.line - 1]))
    start = max(0, position.column - WIDTH // 2) if len(line) > WIDTH else 0
    return f"{head}\n    {line[start : start + WIDTH].rstrip()}\n    {' ' * (position.column - 1 - start)}^"
