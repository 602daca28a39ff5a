"""`ablate compare STUDY_A STUDY_B`: the same optimizations on two stacks or machines; needs no torch and no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.loading import find_paths
from ablate.cli.options import REPORTS, RUNS, Json, Runs
from ablate.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from ablate.analysis.compare import Difference
    from ablate.analysis.results import Results

FirstStudy = Annotated[Path, typer.Argument(metavar="STUDY_A", help="Spec of a study, or its folder (runs/NAME).")]
SecondStudy = Annotated[Path, typer.Argument(metavar="STUDY_B", help="The study to compare with it.")]


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command()(compare)


def compare(
    first: FirstStudy,
    second: SecondStudy,
    runs: Runs = RUNS,
    runs_b: Annotated[
        Path | None, typer.Option("--runs-b", help="Folder of the second study's records, if another one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the effects of two studies, e.g. two torch versions or two GPUs, with intervals of the differences."""
    from ablate.analysis.compare import compare as compare_results

    found = compare_results(_results(first, runs), _results(second, runs_b or runs))
    if as_json:
        print_json(found)
        return
    print_line(f"{found.first} (first) against {found.second} (second)")
    for name, (one, two) in found.environment.items():
        print_line(f"  {name}: {one} | {two}")
    for warning in found.warnings:
        print_line(f"not only the stack: {warning}")
    shown = [row for row in found.differences if row.ratio is not None]
    print_table(
        ("task", "time", "number", "of", "first", "second", "second / first", "95 % interval", "together", ""),
        map(_row, shown),
    )
    for row in (r for r in found.differences if r.ratio is None and (r.first or r.second)):
        print_line(f"{row.workload}, {row.response}, {row.kind} {row.subject}: no difference stated ({row.why})")
    if not found.differences:
        print_line("the studies share no workload")


def _results(study: Path, runs: Path) -> Results:
    """Analyze the records of a study; nothing is written."""
    from ablate.analysis.analyze import analyze_trials
    from ablate.analysis.comparable import Trial
    from ablate.records.store import read_design, read_records, read_study

    paths = find_paths(study, runs=runs, reports=REPORTS)
    trials = [Trial(record=record, folder=folder) for folder, record in read_records(paths.records)]
    return analyze_trials(read_study(paths.study_json), read_design(paths.design_json), trials)


def _row(row: Difference) -> tuple[object, ...]:
    from ablate.analysis.wording import format_factor, format_interval

    verdict = "differs" if row.differs else "" if row.grade == "full" else "pilot"
    return (
        row.workload, row.response, row.kind, row.subject, *(f"{x:.3f}x" if x else "" for x in (row.first, row.second)),
        format_factor(row.ratio) if row.ratio else "",
        *(format_interval(i) if i else "one block" for i in (row.interval, row.simultaneous)), verdict,
    )  # fmt: skip
