"""Text, tables and values of a command -> the terminal, always as data and never as markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ablate.core.printable import escape_controls
from ablate.core.serialize import to_dict

EXIT_USER_ERROR = 1
EXIT_INTERRUPTED = 3


def print_line(text: str = "") -> None:
    """Print one line to stdout."""
    sys.stdout.write(escape_controls(text) + "\n")


def print_error(text: str) -> None:
    """Print an error to stderr."""
    sys.stderr.write(escape_controls(text) + "\n")


def print_json(value: Any) -> None:
    """Print a dataclass or plain value as JSON to stdout."""
    print_line(json.dumps(to_dict(value), indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; cells are plain text."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else escape_controls(str(cell))) for cell in row))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 160
    console.print(table)
