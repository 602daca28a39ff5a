"""Options that several commands share -> annotated types for typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="Spec of the study (a YAML file).")]
StoredStudy = Annotated[
    Path, typer.Argument(metavar="SPEC", help="Spec of the study, or the folder of a study (runs/NAME).")
]
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
    typer.Option("--device", help="auto, cpu, cuda, cuda:<n> or a GPU's UUID; left out, the first without a worker."),
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
