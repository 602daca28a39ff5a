"""Arguments that several commands share, and what commands print: text as data and never as markup."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ablate.core.serialize import to_dict
from ablate.files.printable import escape_controls

FIRST_SPEC = Path("study.yaml")  # what `ablate init` writes, and what every command reads when no spec is named


def _spec(text: str) -> Any:
    return typer.Argument(metavar="SPEC", help=text, default_factory=lambda: FIRST_SPEC, show_default=str(FIRST_SPEC))


Spec = Annotated[Path, _spec("Spec of the study (a YAML file).")]
StoredStudy = Annotated[Path, _spec("Spec of the study, or the folder of a study (runs/NAME).")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder under which each study has its records.")]
Reports = Annotated[Path, typer.Option("--reports", help="Folder under which each study has its report.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout, for scripts.")]
Workloads = Annotated[
    list[str] | None, typer.Option("--workload", help="Only this workload of the study; may be given several times.")
]
Blocks = Annotated[int | None, typer.Option("--blocks", help="Number of blocks, instead of the spec's.")]
TrackingUri = Annotated[
    str | None, typer.Option("--tracking-uri", help="MLflow store, instead of the spec's, e.g. sqlite:///mlflow.db.")
]
DeviceWish = Annotated[
    str | None,
    typer.Option("--device", help="auto, cpu, cuda, cuda:<n> or a GPU's UUID; if omitted, the first without a worker."),
]
RestartBlocks = Annotated[
    bool, typer.Option("--restart-blocks", help="Train unfinished blocks anew that were begun in another environment.")
]
LedgerAddress = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="PostgreSQL that workers of several hosts share, e.g. postgresql://me@host/ablate; or ABLATE_LEDGER.",
    ),
]

RUNS = Path("runs")
REPORTS = Path("reports")


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
