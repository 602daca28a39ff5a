"""The folder of a study (study, design, records) -> `Results`, `results.json` and CSV tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablate.analysis.quality.later_stages import stage_findings
from ablate.analysis.quality.machine import machine_findings
from ablate.analysis.quality.residuals import (
    make_stability,
    residual_findings,
    run_order,
    stability_findings,
    take_out_means,
)
from ablate.analysis.results.effects import Response
from ablate.analysis.results.quality import Finding, Quality
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import FORMAT, Results, WorkloadResults
from ablate.analysis.results.tables import write_tables
from ablate.analysis.speed.arms import make_arms, make_rows
from ablate.analysis.speed.claims import make_claims
from ablate.analysis.speed.costs import make_break_even, make_ledger
from ablate.analysis.speed.effects import make_effects, make_identities
from ablate.analysis.speed.evidence import find_recompilations, make_verdicts
from ablate.analysis.speed.precision import fold_over, make_precision, precision_findings
from ablate.analysis.speed.sensitivity import make_order_ranges, make_sensitivity
from ablate.analysis.training.judge import make_training
from ablate.analysis.trials.comparable import Layout, Trial, WorkloadTrials, read_trials, select_trials, what_matters
from ablate.analysis.trials.responses import LogTimes, cache_counts, cache_state, responses_with_data
from ablate.analysis.words.speed import make_headline
from ablate.core.cell import Design
from ablate.core.errors import StoredDataError, UserError
from ablate.core.study import Study
from ablate.core.units import grouped
from ablate.files.paths import StudyPaths
from ablate.records.store import read_design, read_json, read_study, write_json

SHARED = "the compile cache is shared between cells, so compile times are not comparable and no horizon is reported"


def analyze(paths: StudyPaths) -> Results:
    """Analyze the records of a study and write `results.json` and `tables/*.csv` into its report folder.

    Args:
        paths: Folders of the study.

    Raises:
        UserError: the study was never started.
        StoredDataError: a file of the study cannot be read.
    """
    if not paths.study_json.exists() or not paths.design_json.exists():
        raise UserError(f"there is no study in {paths.root}; start it with `ablate run SPEC`")
    study, design = read_study(paths.study_json), read_design(paths.design_json)
    results = analyze_trials(study, design, read_trials(paths.records))
    write_json(paths.results_json, results)
    write_tables(results, paths.report / "tables")
    return results


def read_results(paths: StudyPaths) -> Results:
    """Read results back.

    Raises:
        StoredDataError: absent, unreadable, or written by another ablate in another format.
    """
    if not paths.results_json.exists():
        raise StoredDataError(f"{paths.results_json} does not exist; run `ablate analyze` first")
    written = read_json(paths.results_json, _Written).format
    if written > FORMAT:
        raise StoredDataError(
            f"{paths.results_json} has format {written}, this ablate reads up to {FORMAT}: upgrade ablate"
        )
    if written < FORMAT:
        raise StoredDataError(f"{paths.results_json} was written by an earlier ablate: run `ablate analyze` again")
    return read_json(paths.results_json, Results)


@dataclass(frozen=True, kw_only=True)
class _Written:
    """The one thing that the results of every ablate have."""

    format: int


def analyze_trials(study: Study, design: Design, trials: Iterable[Trial]) -> Results:
    """Turn trials into results; reads nothing but the series and predictions beside the records.

    Only timed trials enter effects; parity trials say whether the training changed.
    """
    selected, findings = select_trials(study, design, trials)
    layout = Layout.of(study, design)
    return Results(
        study=replace(study, spec_path=_portable(study.spec_path)),
        study_hash=study.hash,
        num_cells=len(design.cells),
        num_keys=len(design.effective_keys),
        aliases=design.aliases(),
        workloads=tuple(_analyze_workload(layout, workload) for workload in selected),
        findings=findings,
        environment=_shared_environment(selected),
    )


def _analyze_workload(layout: Layout, trials: WorkloadTrials) -> WorkloadResults:
    responses = responses_with_data(trials)
    speed = _analyze_speed(layout, trials, responses)
    info = layout.study.workload(trials.workload).info
    results = WorkloadResults(
        name=trials.workload,
        title=info.title,
        metric=info.metric,
        speed=speed,
        training=make_training(layout, trials),
        quality=_analyze_quality(layout, trials, responses["steady"], speed),
        data=_data(trials),
    )
    return replace(results, headline=make_headline(results)) if results.has_run else results


def _analyze_speed(layout: Layout, trials: WorkloadTrials, responses: Mapping[Response, LogTimes]) -> Speed:
    study = layout.study
    verdicts = make_verdicts(layout, trials)
    evidence = {verdict.optimization: verdict for verdict in verdicts}
    effects = [e for times in responses.values() for e in make_effects(layout, trials, times, evidence)]
    return Speed(
        horizon_epochs=study.timing.horizon_epochs,
        arms=tuple(make_arms(layout, trials, responses)),
        effects=tuple(effects),
        identities=tuple(make_identities(effects)),
        sensitivity=tuple(s for t in responses.values() for s in make_sensitivity(layout.contrasts, trials, t)),
        order_ranges=tuple(r for t in responses.values() for r in make_order_ranges(layout, trials, t)),
        precision=tuple(make_precision(effects, study)),
        fold_over=tuple(fold_over(effects)) if layout.design.kind == "fraction" else (),
        evidence=tuple(verdicts),
        claims=tuple(make_claims(study.claim, (e for e in effects if e.kind == "total"))),
        break_even=tuple(make_break_even(layout, trials, responses)),
        ledger=tuple(make_ledger(layout, trials, responses)),
        recompilations=tuple(find_recompilations(trial.record for trial in trials.usable.values())),
    )


def _analyze_quality(layout: Layout, trials: WorkloadTrials, steady: LogTimes, speed: Speed) -> Quality:
    """Stability and drift, with a finding wherever a reader should do something."""
    stability = make_stability(trials, layout.study.timing.steps_per_epoch)
    residuals = None if trials.not_comparable else take_out_means(trials, steady)
    order = None if residuals is None else run_order(residuals)
    findings = [*trials.findings, *precision_findings(speed.precision), *stability_findings(stability)]
    findings += stage_findings(trials) + machine_findings(trials)
    if residuals is not None and order is not None:
        findings += residual_findings(trials, residuals, order)
    return Quality(
        trials=tuple(make_rows(trials)),
        findings=(*findings, *_left_out(trials)),
        stability=tuple(stability),
        run_order=order,
    )


def _left_out(trials: WorkloadTrials) -> list[Finding]:
    """Blocks without a horizon."""
    states = {block: cache_state(trials, block) for block in trials.blocks}
    found = [Finding(kind="refused", text=SHARED)] if "shared" in states.values() else []
    for block in (block for block, state in states.items() if state == "unlike"):
        counts = ", ".join(f"{state}: {number}" for state, number in sorted(cache_counts(trials, block).items()))
        text = f"block {block} is omitted from the horizon, its compiled trials had unlike compile caches ({counts})"
        found.append(Finding(kind="omitted", text=text))
    return found


def _shared_environment(selected: Iterable[WorkloadTrials]) -> dict[str, Any]:
    """What matters in the environments of the usable trials, with every value that occurs."""
    trials = (trial for workload in selected for _, trial in sorted(workload.usable.items()))
    values = grouped(item for trial in trials for item in what_matters(trial.record.environment).items())
    return {name: " | ".join(dict.fromkeys(seen)) for name, seen in values.items()}


def _data(trials: WorkloadTrials) -> dict[str, Any]:
    """Dataset digest and batch-stream hash per block."""
    stamp: dict[str, Any] = {}
    for (block, _), trial in sorted(trials.usable.items()):
        if (data := trial.record.data) is not None:
            streams = {**stamp.get("streams", {}), str(block): data.stream_hash}
            stamp = {
                "dataset": stamp.get("dataset", data.dataset), "dataset_digest": data.dataset_digest,
                "num_steps": data.num_steps, "streams": streams,
            }  # fmt: skip
    return stamp


def _portable(spec_path: str) -> str:
    """The spec's path as the user gave it; only its name when it would tell where on a disk it lies."""
    return Path(spec_path).name if Path(spec_path).is_absolute() else spec_path
