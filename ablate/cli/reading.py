"""`ablate sync`, `analyze`, `report`, `ui`, `compare`: the commands that only read; they need no torch and no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.loading import check_folder, find_paths
from ablate.cli.pipeline import print_headlines, send_study
from ablate.cli.terminal import (
    REPORTS,
    RUNS,
    Json,
    Reports,
    Runs,
    StoredStudy,
    TrackingUri,
    print_json,
    print_line,
    print_table,
)

if TYPE_CHECKING:
    from ablate.analysis.compare import Difference
    from ablate.analysis.results.study import Results


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (sync, analyze, report, ui, compare):
        app.command()(command)


def sync(
    spec: StoredStudy,
    runs: Runs = RUNS,
    reports: Reports = REPORTS,
    tracking_uri: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Copy trials and report of a study to MLflow, as often as you like, without duplicates."""
    synced = send_study(find_paths(spec, runs=runs, reports=reports), tracking_uri)
    if as_json:
        print_json(synced)
    elif synced.problem is None:
        print_line(f"{synced.num_trials} trials in {synced.uri}, {synced.num_new} of them new")
    raise typer.Exit(0 if synced.problem is None else 1)


def analyze(spec: StoredStudy, runs: Runs = RUNS, reports: Reports = REPORTS, as_json: Json = False) -> None:
    """Turn trial records into effects, intervals and verdicts: results.json and tables."""
    from ablate.analysis.analyze import analyze as analyze_study

    paths = find_paths(spec, runs=runs, reports=reports)
    check_folder(paths.report, "--reports")
    results = analyze_study(paths)
    if as_json:
        print_json(results)
        return
    print_headlines(results)
    print_line(f"results: {paths.results_json}")


def report(spec: StoredStudy, runs: Runs = RUNS, reports: Reports = REPORTS, as_json: Json = False) -> None:
    """Turn stored results into figures and the PDF (analyzes first when there are none)."""
    from ablate.analysis.analyze import analyze as analyze_study
    from ablate.analysis.analyze import read_results
    from ablate.figures.render import render
    from ablate.report.pdf import make_report

    paths = find_paths(spec, runs=runs, reports=reports)
    check_folder(paths.report, "--reports")
    results = read_results(paths) if paths.results_json.exists() else analyze_study(paths)
    render(paths, results)
    make_report(paths, results)
    if as_json:
        print_json({"pdf": str(paths.pdf), "headlines": results.headlines})
        return
    print_headlines(results)
    print_line(f"report: {paths.pdf}")


def ui(
    spec: StoredStudy,
    runs: Runs = RUNS,
    port: Annotated[int, typer.Option("--port", help="Port on this machine.")] = 5000,
    tracking_uri: TrackingUri = None,
) -> None:
    """Serve the MLflow store of a study on this machine's loopback interface."""
    from ablate.records.store import read_study
    from ablate.track.ui import serve

    study = read_study(find_paths(spec, runs=runs, reports=REPORTS).study_json)
    print_line(f"MLflow of study {study.name}: http://127.0.0.1:{port} (Ctrl-C ends it)")
    raise typer.Exit(serve(tracking_uri or study.tracking_uri, port))


FirstStudy = Annotated[Path, typer.Argument(metavar="STUDY_A", help="Spec of a study, or its folder (runs/NAME).")]
SecondStudy = Annotated[Path, typer.Argument(metavar="STUDY_B", help="The study to compare with it.")]


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
    from ablate.analysis.trials.comparable import read_trials
    from ablate.records.store import read_design, read_study

    paths = find_paths(study, runs=runs, reports=REPORTS)
    trials = read_trials(paths.records)
    return analyze_trials(read_study(paths.study_json), read_design(paths.design_json), trials)


def _row(row: Difference) -> tuple[object, ...]:
    from ablate.analysis.words.speed import format_factor, format_interval

    verdict = "differs" if row.differs else "" if row.grade == "full" else "pilot"
    return (
        row.workload, row.response, row.kind, row.subject, *(f"{x:.3f}x" if x else "" for x in (row.first, row.second)),
        format_factor(row.ratio) if row.ratio else "",
        *(format_interval(i) if i else "one block" for i in (row.interval, row.simultaneous)), verdict,
    )  # fmt: skip
