"""`ablate sync`, `analyze`, `report`, `ui`: the commands that only read records; they need no torch and no GPU."""

from __future__ import annotations

from typing import Annotated

import typer

from ablate.cli.loading import find_paths
from ablate.cli.options import REPORTS, RUNS, Json, Reports, Runs, StoredStudy, TrackingUri
from ablate.cli.output import print_json, print_line
from ablate.cli.pipeline import print_headlines, send_study


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (sync, analyze, report, ui):
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
