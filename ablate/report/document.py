"""Results and rendered figures -> the report as plain values (texts and tables), with how the numbers came about."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.analysis.results.effects import ClaimVerdict, Response
from ablate.analysis.results.speed import ArmSummary, Speed
from ablate.analysis.results.study import Results, WorkloadResults
from ablate.analysis.statistics.inference import FEWEST_BLOCKS
from ablate.analysis.words.speed import format_interval
from ablate.core.contrast import ContrastKind
from ablate.core.study import WorkloadChoice
from ablate.report.cells import EMPTY, Table, TableCell, Tone, cell, number, seconds, speedup_cell, table
from ablate.report.sections import workload_section

CACHE_WORDS = {
    "per-cell": "Each cell keeps its own compile cache: its first trial compiles cold, later ones warm, and the "
    "horizon is reported for each state apart. A block counts only when all its compiled trials had the same state. "
    "With another seed the batches have other sizes, so cells without dynamic_shapes are never fully warm.",
    "none": "Every trial compiles with an empty cache.",
    "shared": "The compile cache is shared between cells; compile times and the horizon are not reported.",
}


def methods(results: Results) -> list[dict[str, str]]:
    """Short paragraphs: what it is called, and what was done."""
    texts = {
        "Trial": "One cell trained once in a fresh process; epochs inside it are sub-samples. Diagnostics run outside "
        "the timed part.",
        "Block": "One seed: every effective key once, in fresh random order, on the same mini-batches. Trials whose "
        "batch streams differ are not paired, and trials whose environments differ are not pooled.",
        "Times": "steady = median of the epochs after the first in which nothing compiled; start-up = total of the "
        "timed epochs - number of epochs · steady; horizon = start-up + "
        f"{results.study.timing.horizon_epochs} · steady. {CACHE_WORDS[results.study.compile_cache]}",
        "Effect": "θ = sum over cells c of w[c] · log T[c], positive = faster, exp(θ) = speed-up. total = "
        "log T[eager] - log T[full]; compile = log T[eager] - log T[naive].",
        "Attribution": "Shapley values: φ[i] = sum over sets S without i of g(|S|) · (log T[S] - log T[S+i]), "
        "g(s) = 1 / (n · C(n-1, s)). total = compile + sum of φ, exactly, in every block. Layers: the same game with "
        "a layer switching its optimizations together. Cells that an inert optimization makes equal are measured once "
        "and their weights add up; an inert optimization is 0 by construction, without an interval.",
        "Pairs and orders": "Pair = Shapley interaction index, exploratory: no claim is made about it. The ladder's "
        "range is over every set of optimizations that may come before one. A half fraction assumes that no three "
        "optimizations interact; naive against the sum of its effects checks that (lack of fit).",
        "Intervals": "Block-t: mean ± t(B-1) · sd / √B over blocks, 95 %. In the tables of optimizations and "
        "layers the intervals hold together (Bonferroni). One block has no interval; fewer than "
        f"{FEWEST_BLOCKS} are a pilot without claims. A colored number is claimed: {FEWEST_BLOCKS} blocks or more, "
        "Holm below .05 in its family, and the evidence says that the optimization bites.",
        "Claim": "Supported: the whole interval lies inside the claimed range. Refuted: the two do not overlap. "
        "Undecided: anything else.",
        "Evidence": "Each optimization declares beforehand which counter must differ. It bites when the counter moves "
        "that way in at least half of the pairs of trials that differ only in it (where a design has none: of naive "
        "and full, each optimization with a counter of its own); vacuous when it does not; structural "
        "when would-be device waits went away on a CPU, where nothing can stall.",
        "Training, step by step": "Parity trials: same weights, same batches, same dropout masks (checked in each "
        "process) as eager, apart from the timed trials. d(t) = |loss[arm] - loss[eager]| / |loss[eager]|; env(t) = "
        "running maximum of the same over eager's reruns from weights moved by one ulp, at least 2^-22; K = first step "
        "with env > 1e-5, from where eager does not repeat itself either. Within rounding: d(t) <= 10 env(t) for every "
        "t < K. An optimization is full against full without it. A loss that is not finite, another number of steps or "
        "another learning rate is different. Without aligned masks these trials say nothing.",
        "Training, whole": "Timed trials, paired over blocks: difference of the final loss (mean of the last of 20 "
        "bins of steps), of every bin, and of the validation metric (one-sided: not worse). Equivalent: the 90 % "
        "block-t interval lies inside the margin of the spec (two one-sided tests at 5 %; the curve: in every bin). "
        "Different: the 95 % interval excludes 0 (the curve: for all bins together). Both: different within margin. "
        "Neither: inconclusive. An optimization is half of the cells against the other half. A window that fails "
        "overrides this; fewer than five blocks claim nothing.",
        "Sensitivity": "Satterthwaite takes the trials of a block as independent; the cluster bootstrap resamples "
        "blocks (too narrow with few); mean and fastest epoch replace the median. None of them is ever claimed.",
        "Stability": "After the last compilation, step times (on a GPU its own, between events) are cut at change "
        "points (exact minimum of the normal cost, penalty 15 log n, as PELT), levels within 1 % are one. A trial "
        "whose last level is shorter than an epoch has no steady state; it is named, and nothing is deleted.",
        "Failure": "A trial that did not complete drops its block for the numbers that need it; nothing is imputed, no "
        "outlier is deleted.",
    }
    return [{"name": name, "text": text} for name, text in texts.items()]


def not_tested(results: Results) -> list[str]:
    """What a reader might expect here and will not find, with the reason."""
    study = results.study
    found = [f"{result.name}: {text}" for result in results.workloads for text in result.training.untested]
    if study.device == "cpu":
        found.append(
            "Anything that needs a GPU: CUDA graphs, kernels, device waits. This report says nothing about a GPU, and "
            "nothing is extrapolated."
        )
    if all(f.off_means == "today" for f in study.factors) and study.factors:
        found.append(
            "The guide's own starting point: off means what a user of the installed versions gets today, so behavior "
            "that newer versions fixed by themselves cannot show an effect."
        )
    fixed = [f"{f.name} ({f.setting})" for f in study.factors if f.setting != "both"]
    if fixed:
        found.append("Optimizations that this study holds fixed: " + ", ".join(fixed) + ".")
    if any(choice.options.get("dataset") == "look-alike" for choice in study.workloads):
        found.append(
            "Real data: the look-alike has the shape and the difficulty of H&M, so times carry over only in so far as "
            "batch sizes do, and accuracies do not carry over."
        )
    return found


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
    rows = []
    for name, trial in ((w.name, trial) for w in results.workloads for trial in w.quality.trials):
        if not trial.not_run and not trial.completed:
            status = trial.status + (f" (attempt {trial.attempt})" if trial.attempt > 1 or trial.superseded else "")
            followed = "a later attempt follows" if trial.superseded else ""
            texts = (name, trial.name, str(trial.block))
            rows.append([*map(cell, texts), cell(status, followed, "bad"), cell(trial.reason)])
    return table(["task", "cell", "block", "status", "reason"], rows) if rows else None


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
