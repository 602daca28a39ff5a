"""`ablate data make` and `ablate data check`: data sets before any study."""

from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.terminal import Json, print_json, print_line, print_table

data = typer.Typer(help="Make and check data sets.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    app.add_typer(data, name="data")


@data.command()
def make(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write it.")],
    scale: Annotated[str, typer.Option("--scale", help="Size: tiny, small or real.")] = "tiny",
    seed: Annotated[int, typer.Option("--seed", help="The same scale and seed give the same bytes.")] = 0,
    as_json: Json = False,
) -> None:
    """Make a look-alike of rel-hm in RelBench format."""
    from rich.console import Console
    from rich.progress import Progress

    from ablate.workloads.relational.lookalike.make import make_lookalike

    with Progress(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("weeks of sales", total=None)
        made = make_lookalike(
            folder, scale, seed, on_week=lambda week, weeks: bars.update(bar, completed=week, total=weeks)
        )
    if as_json:
        print_json({"folder": str(made), "scale": scale, "seed": seed})
    else:
        print_line(f"look-alike {scale} (seed {seed}) in {made}")


@data.command()
def check(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder in RelBench format, or a hub name.")],
    as_json: Json = False,
) -> None:
    """Check a data set: keys, time stamps, visible neighbors, labels; exit code 1 when a check fails."""
    from ablate.workloads.relational.check.checks import check_dataset

    results = check_dataset(folder)
    if as_json:
        print_json(results)
    else:
        print_table(
            ("check", "result", "detail"), ((r.name, "ok" if r.passed else "FAILED", r.detail) for r in results)
        )
    raise typer.Exit(0 if all(result.passed for result in results) else 1)
