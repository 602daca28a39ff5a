"""`ablate init`, `schema`, `data make`, `data check`: a first spec, a workload of one's own, data, before any study."""

import os
import shlex
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.terminal import FIRST_SPEC, Json, print_json, print_line, print_table
from ablate.core.errors import UserError

data = typer.Typer(help="Make and check data sets.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (init, schema):
        app.command()(command)
    app.add_typer(data, name="data")


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write the spec.")] = FIRST_SPEC,
    workload: Annotated[
        Path | None, typer.Option("--workload", help="Write a workload of your own too, and a spec for it.")
    ] = None,
) -> None:
    """Write a commented spec to start from, and with --workload a model with its data in one file, to change."""
    texts = {file: _first("study.yaml", file)}
    if workload is not None:
        if workload.suffix != ".py" or not workload.stem.isidentifier():
            raise UserError(f"{workload} cannot be a workload; its name must be one of a Python file, such as mine.py")
        source = (resources.files("ablate.workloads") / "mlp.py").read_text(encoding="utf-8")
        there = _on_one_line(Path(os.path.relpath(workload, file.parent)))
        own = _first("own.yaml", file).replace("mine.py", there)
        texts = {workload: source.replace('"example/mlp"', f'"mine/{workload.stem}"'), file: own}
    existing = [str(path) for path in texts if path.exists()]
    if existing:
        raise UserError(f"{existing[0]} exists already; give another name")
    for place, text in texts.items():
        _write(place, text)
    print_line(f"wrote {' and '.join(map(str, texts))}; next: {shlex.join(['ablate', 'plan', str(file)])}")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; give a path in a folder that exists") from error


def _first(spec: str, file: Path) -> str:
    """The text of a spec to start from, with the name that it gets."""
    text = (resources.files("ablate.cli") / "specs" / spec).read_text(encoding="utf-8")
    return text.replace("study.yaml", _on_one_line(file))


def _on_one_line(path: Path) -> str:
    return " ".join(shlex.quote(str(path)).splitlines())


def schema() -> None:
    """Print the JSON Schema of a spec, for editors that complete and check YAML."""
    from ablate.spec.models import json_schema

    print_json(json_schema())


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
