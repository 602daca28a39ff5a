"""The folder of a study (study, design, records) -> `Results`, `results.json` and CSV tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ablate.analysis.quality.machine import machine_findings
from ablate.analysis.quality.residuals import residual_findings, run_order, take_out_means
from ablate.analysis.quality.stability import make_stability, stability_findings
from ablate.analysis.results.study import (
    FORMAT,
    ArmSummary,
    BreakEven,
    Curve,
    CurveDistance,
    Effect,
    EvidenceVerdict,
    Finding,
    FoldOver,
    LedgerBar,
    OrderRange,
    Precision,
    Results,
    RunOrder,
    Sensitivity,
    Stability,
    TrialRow,
)
from ablate.analysis.results.tables import write_tables
from ablate.analysis.speed.arms import make_arms, make_rows
from ablate.analysis.speed.claims import make_claims
from ablate.analysis.speed.costs import make_break_even, make_ledger
from ablate.analysis.speed.effects import make_effects, make_identities
from ablate.analysis.speed.evidence import make_verdicts
from ablate.analysis.speed.orders import make_order_ranges
from ablate.analysis.speed.precision import fold_over, make_precision, precision_findings
from ablate.analysis.speed.recompilations import find_recompilations
from ablate.analysis.speed.sensitivity import make_sensitivity
from ablate.analysis.training.curves import make_curves, usable_losses
from ablate.analysis.training.judge import Training, make_training
from ablate.analysis.trials.comparable import Trial, WorkloadTrials, select_trials, what_matters
from ablate.analysis.trials.responses import LogTimes, cache_counts, cache_state, responses_with_data
from ablate.analysis.words.speed import make_headlines
from ablate.core.cell import Design
from ablate.core.contrast import Contrast, Refusal
from ablate.core.errors import StoredDataError, UserError
from ablate.core.study import Study
from ablate.design.contrasts import make_contrasts, order_contrasts
from ablate.files.paths import StudyPaths
from ablate.records.store import read_design, read_json, read_records, read_study, write_json

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
    trials = [Trial(record=record, folder=folder) for folder, record in read_records(paths.records)]
    results = analyze_trials(study, design, trials)
    write_json(paths.results_json, results)
    write_tables(results, paths.report / "tables")
    return results


def read_results(paths: StudyPaths) -> Results:
    """Read results back.

    Raises:
        StoredDataError: absent, unreadable, or written by a newer ablate.
    """
    if not paths.results_json.exists():
        raise StoredDataError(f"{paths.results_json} does not exist; run `ablate analyze` first")
    results = read_json(paths.results_json, Results)
    if results.format > FORMAT:
        raise StoredDataError(
            f"{paths.results_json} has format {results.format}, this ablate reads up to {FORMAT}: upgrade ablate"
        )
    return results


def analyze_trials(study: Study, design: Design, trials: Iterable[Trial]) -> Results:
    """Turn trials into results; reads nothing but the series and predictions beside the records.

    Only timed trials enter effects; parity trials say whether the training changed.
    """
    every = list(trials)
    selected, findings = select_trials(study, design, every)
    contrasts, refusals = make_contrasts(study, design)
    found = _Found(findings=findings)
    for workload in selected:
        _analyze_workload(study, design, contrasts, refusals, workload, found)
        losses = usable_losses(workload)
        curves, distances = make_curves(design, workload, losses)
        found.curves += curves
        found.distances += distances
        found.training.append(make_training(study, design, workload, every, losses))
    results = Results(
        study=replace(study, spec_path=_portable(study.spec_path)),
        study_hash=study.hash,
        num_cells=len(design.cells),
        num_keys=len(design.effective_keys),
        aliases=design.aliases(),
        arms=tuple(found.arms),
        effects=tuple(found.effects),
        identities=tuple(make_identities(found.effects)),
        sensitivity=tuple(found.sensitivity),
        order_ranges=tuple(found.order_ranges),
        run_order=tuple(found.run_order),
        precision=tuple(found.precision),
        stability=tuple(found.stability),
        fold_over=tuple(found.fold_over),
        evidence=tuple(found.evidence),
        claims=tuple(make_claims(study.claim, (e for e in found.effects if e.kind == "total"))),
        break_even=tuple(found.break_even),
        ledger=tuple(found.ledger),
        curves=tuple(found.curves),
        curve_distances=tuple(found.distances),
        training=tuple(row for t in found.training for row in t.verdicts),
        windows=tuple(row for t in found.training for row in t.windows),
        margin_tests=tuple(row for t in found.training for row in t.margins),
        deviations=tuple(row for t in found.training for row in t.deviations),
        agreement=tuple(row for t in found.training for row in t.agreement),
        untested=tuple(row for t in found.training for row in t.untested),
        trials=tuple(found.rows),
        findings=tuple(found.findings),
        recompilations=tuple(find_recompilations(t.record for w in selected for t in w.usable.values())),
        environment=_shared_environment(selected),
        data=_data(selected),
    )
    return replace(results, headlines=make_headlines(results))


@dataclass(kw_only=True)
class _Found:
    """Rows collected over the workloads."""

    findings: list[Finding]
    arms: list[ArmSummary] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    evidence: list[EvidenceVerdict] = field(default_factory=list)
    break_even: list[BreakEven] = field(default_factory=list)
    ledger: list[LedgerBar] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    distances: list[CurveDistance] = field(default_factory=list)
    training: list[Training] = field(default_factory=list)
    rows: list[TrialRow] = field(default_factory=list)
    sensitivity: list[Sensitivity] = field(default_factory=list)
    order_ranges: list[OrderRange] = field(default_factory=list)
    run_order: list[RunOrder] = field(default_factory=list)
    precision: list[Precision] = field(default_factory=list)
    stability: list[Stability] = field(default_factory=list)
    fold_over: list[FoldOver] = field(default_factory=list)


def _analyze_workload(
    study: Study,
    design: Design,
    contrasts: list[Contrast],
    refusals: list[Refusal],
    trials: WorkloadTrials,
    found: _Found,
) -> None:
    responses = responses_with_data(trials)
    verdicts = make_verdicts(study, design, contrasts, trials)
    evidence = {verdict.optimization: verdict for verdict in verdicts}
    effects: list[Effect] = []
    steps = order_contrasts(study, design)
    for times in responses.values():
        effects += make_effects(contrasts, refusals, trials, times, evidence, study)
        found.sensitivity += make_sensitivity(contrasts, trials, times)
        found.order_ranges += make_order_ranges(steps, design, trials, times)
    found.effects += effects
    _check_noise(study, design, effects, trials, responses["steady"], found)
    found.findings += _left_out(trials)
    found.evidence += verdicts
    found.arms += make_arms(design, trials, responses)
    found.break_even += make_break_even(design, trials, responses)
    found.ledger += make_ledger(design, trials, responses)
    found.rows += make_rows(trials)


def _check_noise(
    study: Study, design: Design, effects: list[Effect], trials: WorkloadTrials, steady: LogTimes, found: _Found
) -> None:
    """Precision, stability and drift of one workload, with a finding wherever a reader should do something."""
    precision = make_precision(effects, study)
    found.precision += precision
    found.findings += precision_findings(trials.workload, precision)
    if design.kind == "fraction":
        found.fold_over += fold_over(effects)
    stability = make_stability(trials, study.timing.steps_per_epoch)
    found.stability += stability
    found.findings += stability_findings(trials.workload, stability) + machine_findings(trials)
    residuals = None if trials.not_comparable else take_out_means(trials, steady)
    if residuals is not None:
        order = run_order(trials.workload, residuals)
        found.run_order.append(order)
        found.findings += residual_findings(trials, residuals, order)


def _left_out(trials: WorkloadTrials) -> list[Finding]:
    states = {block: cache_state(trials, block) for block in trials.blocks}
    found = [Finding(workload=trials.workload, kind="refused", text=SHARED)] if "shared" in states.values() else []
    for block in (block for block, state in states.items() if state == "unlike"):
        counts = ", ".join(f"{state}: {number}" for state, number in sorted(cache_counts(trials, block).items()))
        text = f"block {block} is left out of the horizon, its compiled trials had unlike compile caches ({counts})"
        found.append(Finding(workload=trials.workload, kind="left out", text=text))
    return found


def _shared_environment(selected: Iterable[WorkloadTrials]) -> dict[str, Any]:
    """What matters in the environments of the usable trials, with every value that occurs."""
    values: dict[str, dict[str, None]] = {}
    for workload in selected:
        for _, trial in sorted(workload.usable.items()):
            for name, value in what_matters(trial.record.environment).items():
                values.setdefault(name, {})[value] = None
    return {name: " | ".join(seen) for name, seen in values.items()}


def _data(selected: Iterable[WorkloadTrials]) -> dict[str, Any]:
    """Dataset digest and batch-stream hash per workload and block."""
    stamps: dict[str, Any] = {}
    for workload in selected:
        for (block, _), trial in sorted(workload.usable.items()):
            if trial.record.data is not None:
                data = trial.record.data
                entry = stamps.setdefault(workload.workload, {"dataset": data.dataset, "streams": {}})
                entry["dataset_digest"] = data.dataset_digest
                entry["num_steps"] = data.num_steps
                entry["streams"][str(block)] = data.stream_hash
    return stamps


def _portable(spec_path: str) -> str:
    """The spec's path as the user gave it; only its name when it would tell where on a disk it lies."""
    return Path(spec_path).name if Path(spec_path).is_absolute() else spec_path
