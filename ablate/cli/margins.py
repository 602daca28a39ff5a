"""`ablate margins SPEC`: eager seeds of a study -> the margins to write into its spec before the first trial."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ablate.cli.loading import LoadedStudy, check_folder, load_study, write_options
from ablate.cli.terminal import REPORTS, RUNS, Json, Runs, Spec, Workloads, print_error, print_json, print_line
from ablate.core.errors import UserError
from ablate.core.study import Equivalence, ExplicitCell, Study
from ablate.core.units import format_duration
from ablate.files.paths import StudyPaths
from ablate.run.options import RunOptions

if TYPE_CHECKING:
    from ablate.analysis.training.margin_tests import Margin, ProposedMargins

FEWEST_EVER = 2


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command()(margins)


def margins(
    spec: Spec,
    workload: Workloads = None,
    seeds: Annotated[int, typer.Option("--seeds", min=FEWEST_EVER, max=1000, help="Number of eager seeds.")] = 20,
    few: Annotated[
        bool, typer.Option("--few", help="Propose margins from fewer than 20 seeds too, and say so.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Train failed seeds again.")] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Train eager seeds of a study and propose the margins to write into its spec; resumes by itself.

    They are a study of their own, `<name>-margins`, with one block per seed; nothing of it goes to MLflow.
    """
    from ablate.analysis.training.margin_tests import FEWEST_SEEDS, RULE
    from ablate.cli.pipeline import open_progress
    from ablate.run.plan.plan import study_records
    from ablate.run.runner import run_study

    if seeds < FEWEST_SEEDS and not few:
        raise UserError(
            f"--seeds {seeds}: margins need {FEWEST_SEEDS} seeds, a standard deviation of fewer is too uncertain; add "
            "--few to get them anyway, marked as such"
        )
    options = RunOptions(workloads=tuple(workload or ()), retry_failed=retry_failed)
    asked = load_study(spec, options, runs=runs, reports=REPORTS)
    seeded = seeds_of(asked, seeds, runs)
    check_folder(seeded.paths.root, "--runs")
    _announce(seeded, seeds)
    with open_progress(seeded.study.name) as progress:
        outcome = run_study(seeded.study, seeded.design, seeded.paths, progress, options)
    for trial in outcome.failed:
        print_error(f"{trial.status}: {trial.key}: {trial.reason}")
    if outcome.interrupted:
        words = ["--seeds", str(seeds), *(["--few"] if few else []), *write_options(options, runs=runs)]
        resume = shlex.join(["ablate", "margins", str(spec), *words])
        print_error(f"interrupted, {outcome.completed} of {outcome.planned} are completed; resume with: {resume}")
        raise typer.Exit(3)
    found = propose(seeded, FEWEST_EVER if few else FEWEST_SEEDS)
    num_ended = len(study_records(asked.study, asked.paths))
    if as_json:
        print_json(
            {
                "study": seeded.study.name,
                "root": str(seeded.paths.root),
                "rule": RULE,
                "workloads": found,
                "trials_ended_before": num_ended,
                "snippet": snippet(asked.study, found),
            }
        )
        return
    _print(asked.study, found, num_ended)


def _print(study: Study, found: Mapping[str, ProposedMargins], num_ended: int) -> None:
    from ablate.analysis.training.margin_tests import FEWEST_SEEDS, RULE

    for name, proposed in found.items():
        print_line(f"{name}, final loss (mean over the last of 20 bins): {_describe(proposed.loss)}")
        if proposed.metric is not None:
            print_line(f"{name}, validation metric: {_describe(proposed.metric)}")
    fewest = min(proposed.loss.num_seeds for proposed in found.values())
    if fewest < FEWEST_SEEDS:
        print_line(f"from {fewest} seeds only, {FEWEST_SEEDS} are needed: take this as a first look")
    if num_ended:
        print_line(
            f"{num_ended} trials of {study.name} have ended already: a margin written now comes after them, and the "
            "report says so"
        )
    print_line(f"to write into the spec before its first trial ({RULE}; here the strict ones):\n")
    print_line(snippet(study, found))


def seeds_of(asked: LoadedStudy, seeds: int, runs: Path) -> LoadedStudy:
    """Derive the study `<name>-margins`: eager alone, one block per seed, everything else as in the study."""
    study = replace(
        asked.study,
        name=f"{asked.study.name}-margins",
        question=f"How much does eager training of {asked.study.name} differ from seed to seed?",
        claim=None,
        design="cells",
        cells=(ExplicitCell(arm="eager", execution="eager"),),
        blocks=seeds,
        equivalence=Equivalence(parity="off"),
        sequential=None,
    )
    return LoadedStudy.of(study, StudyPaths.of(study.name, runs=runs, reports=REPORTS), asked.workloads)


def propose(seeded: LoadedStudy, fewest_seeds: int) -> dict[str, ProposedMargins]:
    """Read losses and metrics of the completed seeds; returns the margins by workload.

    Raises:
        UserError: too few seeds completed, a loss that is not finite, or seeds that must not be pooled.
    """
    from ablate.analysis.statistics.tost import final_loss
    from ablate.analysis.training.margin_tests import propose_margins
    from ablate.analysis.trials.comparable import Trial, mixed_data, mixed_environments, mixed_precision
    from ablate.records.store import read_columns
    from ablate.run.plan.plan import study_records

    records = study_records(seeded.study, seeded.paths)
    found = {}
    for name in seeded.workloads:
        trials = [trial for trial in seeded.trials if trial.workload == name and trial.key in records]
        completed = [(trial, records[trial.key]) for trial in trials if records[trial.key].completed]
        used = [Trial(folder=seeded.paths.records / trial.slug, record=record) for trial, record in completed]
        difference = mixed_data(used) or mixed_precision(used) or mixed_environments(used)
        if difference:
            raise UserError(
                f"{name}: {difference}; move {seeded.paths.root} away and run this again to train the seeds in one"
            )
        losses = [final_loss(read_columns(seeded.paths.records / trial.slug, "loss")["loss"]) for trial, _ in completed]
        metrics = [record.metric.value for _, record in completed if record.metric is not None]
        found[name] = propose_margins(losses, metrics, fewest_seeds=fewest_seeds)
    return found


def snippet(study: Study, found: Mapping[str, ProposedMargins]) -> str:
    """The lines of a spec that state the strict margins, by workload."""
    lines = ["equivalence:"]
    for key in ("margin", "metric_margin"):
        strict: dict[str, float] = {}
        for choice in study.workloads:
            proposed = found.get(choice.name)
            margin = None if proposed is None else proposed.loss if key == "margin" else proposed.metric
            if margin is not None and margin.strict > 0:
                strict[choice.name] = margin.strict
        if strict:
            lines.append(f"  {key}: {{{', '.join(f'{name}: {value:.3g}' for name, value in strict.items())}}}")
    return "\n".join(lines) if len(lines) > 1 else "equivalence: default"


def _describe(margin: Margin) -> str:
    if margin.sd == 0:
        return f"{margin.mean:.6g} in all {margin.num_seeds} seeds; without a difference there is no margin"
    return (
        f"{margin.mean:.6g}, sd {margin.sd:.3g} over {margin.num_seeds} seeds; strict {margin.strict:.3g} "
        f"(recommended), ceiling {margin.ceiling:.3g}"
    )


def _announce(seeded: LoadedStudy, seeds: int) -> None:
    from ablate.run.plan.plan import make_plan

    planned = make_plan(seeded.study, seeded.design, seeded.trials, seeded.paths)
    print_error(
        f"study {planned.study} on {planned.device}: {seeds} eager seeds, {planned.trials} trials, "
        f"{planned.trials - planned.done} missing, about {format_duration(planned.estimated_s)} ({planned.assumption})"
    )
