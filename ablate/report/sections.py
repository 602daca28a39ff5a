"""Results of one workload -> its part of the report: effects, layers, evidence, compilations, training, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.analysis.results.effects import Response
from ablate.analysis.results.speed import ArmSummary, EvidenceVerdict, Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.evidence import evidence_reason
from ablate.analysis.words.speed import RESPONSE_NAMES, saved_compilations
from ablate.core.contrast import ContrastKind
from ablate.core.evidence import Counter, counter_of
from ablate.core.study import Study
from ablate.design.contrasts import layers_of
from ablate.report.attribution import attribution_section
from ablate.report.cells import EMPTY, Table, TableCell, Tone, cell, count, seconds, speedup_cell, table
from ablate.report.missing import dropped_blocks, unidentified_numbers
from ablate.report.recompilations import recompilation_table
from ablate.report.training import training_section

UNCLAIMED = ("vacuous", "inert", "structural")
TONES: Mapping[str, Tone] = {"bites": "good"}
SECONDARY: Mapping[ContrastKind, str] = {
    "leave-one-out": "leave one out (full without it against full)",
    "add-one-in": "add one in (naive against naive with it)",
    "ladder": "ladder (the guide's order)",
    "eager-optimization": "in eager mode (eager against eager with it)",
}
SHOWN = (
    "compiles.forward", "compiles.optimizer_step", "graphs", "graph_breaks", "cudagraph_recordings", "syncs_per_step"
)  # fmt: skip


def workload_section(
    study: Study, result: WorkloadResults, used: Sequence[Response], figures: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Work out the part of the report about one workload.

    Args:
        used: The responses that the report has columns for.
        figures: Rendered figures of this workload.
    """
    speed = result.speed
    return {
        "workload": result.name,
        "title": result.title,
        "figures": {figure["figure"]: dict(figure) for figure in figures},
        "attribution": _attribution(study, speed, used),
        "layers": _layers(study, speed, used),
        "beside": attribution_section(result, used),
        "secondary": _secondary(speed, used),
        "unidentified": unidentified_numbers(speed, used),
        "noise": _noise(speed, used),
        "identity": _identity(speed),
        "evidence": _evidence(study, speed),
        "compilations": _compilations(speed),
        "recompilations": recompilation_table(speed),
        "saved": saved_compilations(speed),
        "training": training_section(result),
        "dropped": dropped_blocks(result, used),
        "flags": [f"{arm.arm}: {flag}" for arm in speed.arms for flag in arm.flags],
    }


def _attribution(study: Study, speed: Speed, used: Sequence[Response]) -> Table | None:
    """Shapley values with their evidence; None where no optimization varies or none is identified."""
    if not _measured(speed, "optimization", used):
        return None
    verdicts = {v.optimization: v for v in speed.evidence}
    rows = [
        [cell("naive compile", "eager against naive", "strong"), EMPTY, EMPTY]
        + [speedup_cell(speed.effect(r, "compile")) for r in used]
    ]
    for factor in study.varying:
        verdict = verdicts.get(factor.name)
        greyed = verdict is not None and verdict.verdict in UNCLAIMED
        rows.append(
            [
                cell(factor.name, factor.emulation or "", "grey" if greyed else "strong"),
                cell(factor.info.layer, tone="grey" if greyed else ""),
                _verdict_cell(verdict),
                *(
                    speedup_cell(speed.effect(r, "optimization", factor.name), simultaneous=True, greyed=greyed)
                    for r in used
                ),
            ]
        )
    rows.append(
        [cell("full", "eager against full", "strong"), EMPTY, EMPTY]
        + [speedup_cell(speed.effect(r, "total")) for r in used]
    )
    return table(["step", "layer", "did it bite?", *(RESPONSE_NAMES[r] for r in used)], rows)


def _layers(study: Study, speed: Speed, used: Sequence[Response]) -> Table | None:
    if not _measured(speed, "layer", used):
        return None
    verdicts = {v.optimization: v for v in speed.evidence}
    rows = []
    for layer, members in layers_of(study.varying).items():
        words = [verdicts[m].verdict for m in members if m in verdicts]
        greyed = bool(words) and all(word in UNCLAIMED for word in words)
        rows.append(
            [
                cell(layer, ", ".join(f.name for f in study.varying if f.name in members),
                     "grey" if greyed else "strong"),
                *(
                    speedup_cell(speed.effect(r, "layer", layer), simultaneous=True, greyed=greyed)
                    for r in used
                ),
            ]
        )  # fmt: skip
    return table(["layer", *(RESPONSE_NAMES[r] for r in used)], rows) if rows else None


def _secondary(speed: Speed, used: Sequence[Response]) -> list[dict[str, Any]]:
    verdicts = {v.optimization: v for v in speed.evidence}
    found = []
    for kind, title in SECONDARY.items():
        if not _measured(speed, kind, used):
            continue
        subjects = [
            name for name in dict.fromkeys(e.subject for e in speed.of_kind(kind))
            if any((e := speed.effect(r, kind, name)) and not e.refused for r in used)
        ]  # fmt: skip
        rows = []
        for name in subjects:
            verdict = verdicts.get(name)
            greyed = verdict is not None and verdict.verdict in UNCLAIMED
            cells = [speedup_cell(speed.effect(r, kind, name), simultaneous=True, greyed=greyed) for r in used]
            rows.append([cell(name, verdict.emulation if verdict else "", "grey" if greyed else "strong"),
                         _verdict_cell(verdict), *cells])  # fmt: skip
        if rows:
            found.append(
                {"title": title, "table": table([kind, "did it bite?", *(RESPONSE_NAMES[r] for r in used)], rows)}
            )
    return found


def _measured(speed: Speed, kind: ContrastKind, used: Sequence[Response]) -> bool:
    """Whether any number of this kind was measured."""
    return any(e.estimate is not None for e in speed.effects if e.kind == kind and e.response in used)


def _noise(speed: Speed, used: Sequence[Response]) -> str:
    """The A/A pair: what two measurements of one cell differ by."""
    parts = []
    for effect in speed.of_kind("a/a"):
        for response in used:
            pair = speed.effect(response, "a/a", effect.subject)
            if pair is None or pair.estimate is None:
                continue
            est = pair.estimate
            if est.interval is None:
                text = f"differs by {100 * abs(est.speedup - 1):.1f} % in one block"
            else:
                text = f"half-width {50 * (est.interval[1] - est.interval[0]):.1f} %"
            parts.append(f"{effect.subject}, {RESPONSE_NAMES[response]}: {text}")
    return "; ".join(parts)


def _identity(speed: Speed) -> str:
    residuals = [i.residual for i in speed.identities]
    if not residuals:
        return ""
    return (
        "Compile term plus Shapley values equal the total in every block, for optimizations and for layers; "
        f"the largest difference on log time is {max(residuals):.1e}."
    )


def _evidence(study: Study, speed: Speed) -> Table | None:
    rows = []
    own = {name: Counter(title=title, unit=title) for f in study.factors for name, title in f.info.counters.items()}
    for verdict in speed.evidence:
        greyed = verdict.verdict in UNCLAIMED
        unmeasured = verdict.verdict in ("inert", "not measured")
        why = evidence_reason(verdict) if unmeasured else verdict.emulation
        if verdict.jointly:
            why = "; ".join(filter(None, [why, "naive against full: the others are switched too"]))
        first = [cell(verdict.optimization, why, "grey" if greyed else "strong"), _verdict_cell(verdict, small=False)]
        for result in verdict.expectations:
            tone: Tone = "grey" if greyed else ""
            pairs = f"{result.num_as_expected} of {result.num_pairs}" if result.num_pairs else "-"
            rows.append(
                [
                    *first,
                    cell(f"{result.direction} {counter_of(result.counter, own).title}", result.sentence, tone),
                    cell(count(result.off_mean), tone=tone),
                    cell(count(result.on_mean), tone=tone),
                    cell(pairs, tone=tone),
                ]
            )
        if not verdict.expectations:
            rows.append([*first, EMPTY, EMPTY, EMPTY, EMPTY])
    headers = ["optimization", "verdict", "what must differ", "off", "on", "pairs as declared"]
    return table(headers, rows) if rows else None


def _compilations(speed: Speed) -> Table | None:
    arms = speed.arms
    shown = [name for name in SHOWN if any(name in arm.counters for arm in arms)]
    if not shown:
        return None
    cold, warm = (any(getattr(a, f"compile_{s}_s") is not None for a in arms) for s in ("cold", "warm"))
    headers = ["arm", *(counter_of(name).title for name in shown)]
    headers += ["compiling, cold"] * cold + ["compiling, warm"] * warm
    return table(headers, [_compilation_row(arm, shown, cold, warm) for arm in arms])


def _compilation_row(arm: ArmSummary, shown: Sequence[str], cold: bool, warm: bool) -> list[TableCell]:
    row = [cell(arm.label, "; ".join(arm.flags), "strong")]
    row += [cell(count(arm.counters.get(name))) for name in shown]
    row += [cell(seconds(arm.compile_cold_s))] * cold + [cell(seconds(arm.compile_warm_s))] * warm
    return row


def _verdict_cell(verdict: EvidenceVerdict | None, *, small: bool = True) -> TableCell:
    if verdict is None:
        return EMPTY
    reason = evidence_reason(verdict) if small and verdict.verdict in ("inert", "not measured") else ""
    return cell(verdict.verdict, reason, TONES.get(verdict.verdict, "grey"))
