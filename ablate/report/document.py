"""Results and rendered figures -> the report as plain values (texts and tables), which the template only lays out."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.analysis.results.effects import ClaimVerdict, Response
from ablate.analysis.results.quality import TrialRow
from ablate.analysis.results.speed import ArmSummary, Speed
from ablate.analysis.results.study import Results, WorkloadResults
from ablate.analysis.words.speed import format_interval
from ablate.core.contrast import ContrastKind
from ablate.core.study import WorkloadChoice
from ablate.report.cells import EMPTY, Table, TableCell, Tone, cell, number, seconds, speedup_cell, table
from ablate.report.methods import methods, not_tested
from ablate.report.sections import workload_section

MODES = ("eager", "naive", "full")
SHORT: Mapping[Response, str] = {
    "steady": "steady epoch",
    "horizon_cold": "horizon, cold",
    "horizon_warm": "horizon, warm",
}


def make_document(results: Results, figures: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Work out every text and table of the report.

    Args:
        results: What the analysis found.
        figures: `figures.json` entries (name, figure, workload, title, alt, file).

    Returns:
        Plain values; texts from specs and errors are in them as they are, since the template prints, never evaluates.
    """
    study = results.study
    used = responses_used(results)
    run = results.workloads_run
    return {
        "title": study.name,
        "question": study.question,
        "facts": _facts(results),
        "answers": [_answer(result, used) for result in run],
        "answer_note": _answer_note(results),
        "claim_table": _claim_table(results, used),
        "claim_source": study.claim.source if study.claim else "",
        "workloads": [
            workload_section(study, result, used, [f for f in figures if f["workload"] == result.name])
            for result in run
        ],
        "failed": _failed(results),
        "findings": _findings(results),
        "not_tested": not_tested(results),
        "methods": methods(results),
        "environment": [[name, str(value)] for name, value in results.environment.items()],
        "data": _data_rows(results),
        "commands": _commands(results),
        "spec_path": study.spec_path,
        "spec_text": study.spec_text,
    }


def responses_used(results: Results) -> tuple[Response, ...]:
    """The responses that any workload reports, in reading order."""
    present = {effect.response for result in results.workloads for effect in result.speed.effects}
    return tuple(response for response in SHORT if response in present)


def _data_of(choice: WorkloadChoice) -> str:
    scale = choice.options.get("scale")
    return f"{choice.options.get('dataset') or choice.name}" + (f" ({scale})" if scale else "")


def _facts(results: Results) -> list[list[str]]:
    study = results.study
    done = sum(trial.completed for result in results.workloads for trial in result.quality.trials)
    planned = sum(len({(t.block, t.effective_key) for t in result.quality.trials}) for result in results.workloads)
    facts = [
        ["design", f"{study.design}, {results.num_cells} cells, {results.num_keys} measured per block"],
        ["trials", f"{done} of {planned} completed, {study.blocks} block{'s' if study.blocks != 1 else ''}"],
        ["device", results.environment.get("device_name", study.device)],
        ["data", ", ".join(dict.fromkeys(map(_data_of, study.workloads)))],
        ["timing", f"{study.timing.epochs} epochs of {study.timing.steps_per_epoch} steps, "
                   f"horizon {study.timing.horizon_epochs} epochs"],
        ["off means", ", ".join(dict.fromkeys(f.off_means for f in study.factors)) or "-"],
    ]  # fmt: skip
    waiting = [result.name for result in results.workloads if not result.has_run]
    if waiting:
        facts.append(["not run yet", ", ".join(waiting)])
    if study.profile:
        facts.append(["profile", f"{study.profile} (changes the settings of the spec on this machine)"])
    return facts


def _answer(result: WorkloadResults, used: Sequence[Response]) -> dict[str, Any]:
    arms = result.speed.named_arms
    rows = [_answer_row(result.speed, mode, arms[mode], used) for mode in MODES if mode in arms]
    headers = ["mode"]
    for response in used:
        headers += [SHORT[response], "speed-up vs eager"]
    metric = next((a.metric_unit or a.metric_name for a in arms.values() if a.metric is not None), result.metric)
    return {
        "workload": result.name,
        "title": result.title,
        "table": table([*headers, metric], rows),
        "sentences": list(result.headline),
    }


def _answer_row(speed: Speed, mode: str, arm: ArmSummary, used: Sequence[Response]) -> list[TableCell]:
    kinds: Mapping[str, ContrastKind] = {"naive": "compile", "full": "total"}
    row = [cell(mode, "; ".join(arm.flags), "strong")]
    for response in used:
        row.append(cell(seconds(getattr(arm, f"{response}_s"))))
        is_eager = mode not in kinds
        row.append(cell("1", "reference", "grey") if is_eager else speedup_cell(speed.effect(response, kinds[mode])))
    return [*row, cell(number(arm.metric)) if arm.metric is not None else EMPTY]


def _answer_note(results: Results) -> str:
    study = results.study
    parts = [
        f"Steady: one epoch of {study.timing.steps_per_epoch} steps once nothing compiles any more. Horizon: "
        f"{study.timing.horizon_epochs} epochs from the first batch, compilation and recompilation included. "
        "A speed-up above 1 is faster; intervals are 95 % over blocks."
    ]
    if study.blocks == 1:
        parts.append("One block: there is no interval, and nothing is claimed.")
    elif study.blocks < 5:
        parts.append(f"{study.blocks} blocks are a pilot: intervals are marked so, and nothing is claimed.")
    emulated = [f"{f.name}: {f.emulation}" for f in study.factors if f.emulation]
    if emulated:
        parts.append("Off is an emulation for " + "; ".join(emulated) + ".")
    return " ".join(parts)


def _claim_table(results: Results, used: Sequence[Response]) -> Table | None:
    rows = []
    for result in results.workloads:
        for reading in dict.fromkeys(c.reading for c in result.speed.claims):
            found = {c.response: c for c in result.speed.claims if c.reading == reading}
            first = next(iter(found.values()))
            claimed = cell(reading, format_interval((first.low, first.high)))
            rows.append([cell(result.name), claimed, *(_claim_cell(found.get(response)) for response in used)])
    return table(["task", "claim", *(SHORT[r] for r in used)], rows) if rows else None


def _claim_cell(claim: ClaimVerdict | None) -> TableCell:
    if claim is None:
        return EMPTY
    tones: Mapping[str, Tone] = {"supported": "good", "refuted": "bad"}
    return cell(claim.verdict, f"{claim.place} the range" if claim.place else "", tones.get(claim.verdict, "grey"))


def _failed(results: Results) -> Table | None:
    ended = ((w.name, trial) for w in results.workloads for trial in w.quality.trials if not trial.not_run)
    rows = [_failed_row(name, trial) for name, trial in ended if not trial.completed]
    return table(["task", "cell", "block", "status", "reason"], rows) if rows else None


def _failed_row(workload: str, trial: TrialRow) -> list[TableCell]:
    status = trial.status + (f" (attempt {trial.attempt})" if trial.attempt > 1 or trial.superseded else "")
    followed = "a later attempt follows" if trial.superseded else ""
    texts = [workload, trial.name, str(trial.block)]
    return [*map(cell, texts), cell(status, followed, "bad"), cell(trial.reason)]


def _findings(results: Results) -> list[dict[str, str]]:
    every = [("", finding) for finding in results.findings]
    every += [(result.name, finding) for result in results.workloads for finding in result.quality.findings]
    return [{"kind": finding.kind, "workload": workload, "text": finding.text} for workload, finding in every]


def _data_rows(results: Results) -> list[list[str]]:
    rows = []
    for result in (result for result in results.workloads if result.data):
        dataset, digest = result.data["dataset"], result.data["dataset_digest"][:12]
        streams = ", ".join(f"block {block} {value[:12]}" for block, value in result.data["streams"].items())
        rows.append([result.name, f"{dataset}, digest {digest}; batch streams: {streams}"])
    return rows


def _commands(results: Results) -> list[list[str]]:
    spec = shlex.quote(results.study.spec_path)
    trials = [trial for result in results.workloads for trial in result.quality.trials]
    trial = shlex.quote(trials[0].slug) if trials else "TRIAL"
    return [
        ["run everything, resume what is missing", f"ablate run {spec}"],
        ["cells, aliases, number of trials", f"ablate plan {spec}"],
        ["every number of this report again, from the records", f"ablate analyze {spec}"],
        ["this PDF again", f"ablate report {spec}"],
        ["one trial, and the command that trains it again", f"ablate show {trial}"],
    ]
