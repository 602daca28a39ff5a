"""`ablate run` in two halves: trials with live tracking (and looks, where blocks are added), then the report."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.cli.loading import LoadedStudy
from ablate.cli.terminal import print_error, print_json, print_line
from ablate.core.errors import AblateError
from ablate.core.study import LOOKS, Study
from ablate.files.paths import StudyPaths

if TYPE_CHECKING:
    from ablate.analysis.results.study import Results
    from ablate.run.devices import Device
    from ablate.run.options import RunOptions
    from ablate.run.outcome import RunOutcome
    from ablate.run.progress import Progress
    from ablate.track.sync import SyncOutcome


def train_study(loaded: LoadedStudy, options: RunOptions, device: Device) -> RunOutcome:
    """Train what is missing on this device, with progress on stderr and each ended trial sent to MLflow.

    Raises:
        UserError: as `run_study`.
    """
    from ablate.run.runner import run_study

    with open_progress(loaded.study.name) as progress:
        return run_study(
            loaded.study,
            loaded.design,
            loaded.paths,
            progress,
            options,
            on_trial=make_tracking(loaded.paths, options.tracking_uri, progress),
            device=device,
        )


def make_tracking(paths: StudyPaths, tracking_uri: str | None, progress: Progress) -> Callable[[Path], None]:
    """Make the callback that sends one ended trial; trouble is told once and never stops the study."""
    trackers: list[object] = []
    told: set[str] = set()

    def tell(problem: str) -> None:
        if problem not in told:
            told.add(problem)
            progress.note(f"tracking: {problem}")

    def send(folder: Path) -> None:
        from ablate.track.sync import Tracker

        try:
            if not trackers:
                trackers.append(Tracker(paths, tracking_uri))
            tracker = trackers[0]
            assert isinstance(tracker, Tracker)
            problem = tracker.sync_trial(folder).problem
        except (AblateError, OSError) as error:
            problem = str(error)
        if problem:
            tell(problem)

    return send


def finish_study(
    loaded: LoadedStudy, outcome: RunOutcome, spec: Path, *, tracking_uri: str | None, report: bool, as_json: bool
) -> None:
    """Analyze, report and sync a study whose trials have ended, then say what came out and where it lies."""
    results = write_report(loaded.paths) if report else None
    synced = send_study(loaded.paths, tracking_uri)
    ui = shlex.join(["ablate", "ui", str(spec)])
    if as_json:
        print_json(
            {
                "outcome": outcome,
                "headlines": results.headlines if results else [],
                "pdf": str(loaded.paths.pdf) if report else None,
                "tracking": synced,
                "ui": ui,
            }
        )
        return
    for trial in outcome.failed:
        print_line(f"{trial.status}: {trial.key}: {trial.reason}")
    if outcome.failed:
        print_line(
            f"{describe_failed(outcome)} did not complete (their folders are in {loaded.paths.records}); train them "
            "again with --retry-failed"
        )
    if results is not None:
        print_headlines(results)
        print_line(f"report: {loaded.paths.pdf}")
    print_line(f"every trial in MLflow: {ui}")


def describe_failed(outcome: RunOutcome) -> str:
    """Count failed trials, timed and parity apart: `1 of 6 trials and 2 of 5 parity trials`."""
    timed = sum(trial.purpose == "timed" for trial in outcome.failed)
    parity = len(outcome.failed) - timed
    parts = [f"{timed} of {outcome.planned} trials"] if timed or not parity else []
    parts += [f"{parity} of {outcome.parity_planned} parity trials"] if parity else []
    return " and ".join(parts)


def write_report(paths: StudyPaths) -> Results:
    """Analyze the records, draw the figures and write the PDF."""
    from ablate.analysis.analyze import analyze
    from ablate.figures.render import render
    from ablate.report.pdf import make_report

    results = analyze(paths)
    render(paths, results)
    make_report(paths, results)
    return results


def send_study(paths: StudyPaths, tracking_uri: str | None) -> SyncOutcome:
    """Send everything to MLflow; a problem is printed, the records are safe either way."""
    from ablate.track.sync import sync_study

    synced = sync_study(paths, tracking_uri)
    if synced.problem:
        print_error(f"tracking: {synced.problem}")
    return synced


def print_headlines(results: Results) -> None:
    """Print the answer of each workload in words."""
    for headline in results.headlines:
        print_line(f"{headline.workload}: {' '.join(headline.sentences)}")


@contextlib.contextmanager
def open_progress(study: str) -> Iterator[Progress]:
    """Progress on stderr: bars on a terminal, else one line per trial."""
    from rich.console import Console

    from ablate.run.progress import PlainProgress, RichProgress

    console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield PlainProgress(sys.stderr)
        return
    with RichProgress(console, study) as bars:
        yield bars


def first_look(loaded: LoadedStudy) -> LoadedStudy:
    """The study with the blocks it had reached when it was interrupted, so that no look happens between looks."""
    if loaded.study.sequential is None or not loaded.paths.study_json.exists():
        return loaded
    from ablate.records.store import read_study

    reached = read_study(loaded.paths.study_json).blocks
    return _with_blocks(loaded, reached) if reached > loaded.study.blocks else loaded


def next_look(loaded: LoadedStudy) -> LoadedStudy | None:
    """The study with the blocks of the next look; None when it is narrow enough, at its end, or not sequential."""
    study = loaded.study
    if study.sequential is None or is_narrow_enough(study, loaded.paths):
        return None
    more = [look for look in LOOKS if study.blocks < look <= study.sequential.most]
    return _with_blocks(loaded, more[0]) if more else None


def is_narrow_enough(study: Study, paths: StudyPaths) -> bool:
    """Whether the widest simultaneous interval of every workload is within the target; effects are not looked at."""
    from ablate.analysis.analyze import analyze
    from ablate.analysis.speed.precision import narrow_enough

    assert study.sequential is not None
    effects = [result.speed.effects for result in analyze(paths).workloads]
    return narrow_enough(effects, study.sequential.response, study.sequential.target)


def _with_blocks(loaded: LoadedStudy, blocks: int) -> LoadedStudy:
    return LoadedStudy.of(replace(loaded.study, blocks=blocks), loaded.paths, loaded.workloads)
