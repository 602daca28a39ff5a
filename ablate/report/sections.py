"""Results of one workload -> its part of the report: effects, layers, evidence, compilations, curves, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from ablate.analysis.results import ArmSummary, Effect, EvidenceVerdict, Response, Results
from ablate.analysis.sentences import RESPONSE_NAMES, saved_compilations
from ablate.core.contrast import ContrastKind
from ablate.core.study import WorkloadChoice
from ablate.design.contrasts import layers_of
from ablate.report.cells import EMPTY, TableCell, Tone, cell, count, number, seconds, speedup_cell

UNCLAIMED = ("vacuous", "inert", "structural")
TONES: Mapping[str, Tone] = {"bites": "good"}
SECONDARY: Mapping[ContrastKind, str] = {
    "leave-one-out": "leave one out (full without it against full)",
    "add-one-in": "add one in (naive against naive with it)",
    "ladder": "ladder (the guide's order)",
    "eager-optimization": "in eager mode (eager against eager with it)",
}
COUNTERS = (
    ("compiles.forward", "forward compiles"),
    ("compiles.optimizer_step", "step compiles"),
    ("graphs", "graphs"),
    ("graph_breaks", "graph breaks"),
    ("cudagraph_recordings", "CUDA-graph recordings"),
    ("syncs_per_step", "syncs per step"),
)


class Table(TypedDict):
    """A table: headers and rows of cells; every row is as long as the headers."""

    headers: list[str]
    rows: list[list[TableCell]]


def table(headers: Sequence[str], rows: Iterable[Sequence[TableCell]]) -> Table:
    """Build a table."""
    return Table(headers=list(headers), rows=[list(row) for row in rows])


def workload_section(
    results: Results, choice: WorkloadChoice, used: Sequence[Response], figures: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """Work out the part of the report about one workload.

    Args:
        used: The responses that the report has columns for.
        figures: Rendered figures of this workload.
    """
    name = choice.name
    return {
        "workload": name,
        "title": choice.info.title,
        "figures": {figure["figure"]: dict(figure) for figure in figures},
        "attribution": _attribution(results, name, used),
        "layers": _layers(results, name, used),
        "secondary": _secondary(results, name, used),
        "unidentified": _unidentified(results, name, used),
        "noise": _noise(results, name, used),
        "identity": _identity(results, name),
        "evidence": _evidence(results, name),
        "compilations": _compilations(results, name),
        "saved": saved_compilations(results, name),
        "curves": _curves(results, name),
        "dropped": _dropped(results, name),
        "flags": [f"{arm.arm}: {flag}" for arm in results.arms if arm.workload == name for flag in arm.flags],
    }


def _attribution(results: Results, workload: str, used: Sequence[Response]) -> Table | None:
    """Shapley values with their evidence; None where no optimization varies or none is identified."""
    effects = _of_kind(results, workload, "optimization")
    if not any(e.estimate or e.inert for e in effects) or all(e.refused for e in effects):
        return None
    verdicts = _verdicts(results, workload)
    rows = [
        [cell("naive compile", "eager against naive", "strong"), EMPTY, EMPTY]
        + [speedup_cell(results.effect(workload, r, "compile")) for r in used]
    ]
    for factor in results.study.varying:
        verdict = verdicts.get(factor.name)
        greyed = verdict is not None and verdict.verdict in UNCLAIMED
        rows.append(
            [
                cell(factor.name, factor.emulation or "", "grey" if greyed else "strong"),
                cell(factor.info.layer, tone="grey" if greyed else ""),
                _verdict_cell(verdict),
                *(
                    speedup_cell(
                        results.effect(workload, r, "optimization", factor.name),
                        simultaneous=True,
                        greyed=greyed,
                    )
                    for r in used
                ),
            ]
        )
    rows.append(
        [cell("full", "eager against full", "strong"), EMPTY, EMPTY]
        + [speedup_cell(results.effect(workload, r, "total")) for r in used]
    )
    return table(["step", "layer", "did it bite?", *(RESPONSE_NAMES[r] for r in used)], rows)


def _layers(results: Results, workload: str, used: Sequence[Response]) -> Table | None:
    if all(e.refused for e in _of_kind(results, workload, "layer")):
        return None
    verdicts = _verdicts(results, workload)
    rows = []
    for layer, members in layers_of(results.study.varying).items():
        words = [verdicts[m].verdict for m in members if m in verdicts]
        greyed = bool(words) and all(word in UNCLAIMED for word in words)
        rows.append(
            [
                cell(layer, ", ".join(f.name for f in results.study.varying if f.name in members),
                     "grey" if greyed else "strong"),
                *(
                    speedup_cell(results.effect(workload, r, "layer", layer), simultaneous=True, greyed=greyed)
                    for r in used
                ),
            ]
        )  # fmt: skip
    return table(["layer", *(RESPONSE_NAMES[r] for r in used)], rows) if rows else None


def _secondary(results: Results, workload: str, used: Sequence[Response]) -> list[dict[str, Any]]:
    verdicts = _verdicts(results, workload)
    found = []
    for kind, title in SECONDARY.items():
        subjects = [
            name for name in dict.fromkeys(e.subject for e in _of_kind(results, workload, kind))
            if any((e := results.effect(workload, r, kind, name)) and not e.refused for r in used)
        ]  # fmt: skip
        rows = []
        for name in subjects:
            verdict = verdicts.get(name)
            greyed = verdict is not None and verdict.verdict in UNCLAIMED
            cells = [
                speedup_cell(results.effect(workload, r, kind, name), simultaneous=True, greyed=greyed)
                for r in used
            ]
            rows.append([cell(name, _emulation(results, name), "grey" if greyed else "strong"),
                         _verdict_cell(verdict), *cells])  # fmt: skip
        if rows:
            found.append(
                {
                    "title": title,
                    "table": table([kind, "did it bite?", *(RESPONSE_NAMES[r] for r in used)], rows),
                }
            )
    return found


def _unidentified(results: Results, workload: str, used: Sequence[Response]) -> list[str]:
    """What the design (or missing trials) leave open, one line per kind and reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for effect in results.effects:
        if effect.workload == workload and effect.refused and effect.response in used[:1]:
            groups.setdefault((effect.kind, effect.refused), []).append(effect.subject)
    return [
        f"{kind}{' of ' + ', '.join(s for s in subjects if s) if any(subjects) else ''}: {reason}"
        for (kind, reason), subjects in groups.items()
    ]


def _noise(results: Results, workload: str, used: Sequence[Response]) -> str:
    """The A/A pair: what two measurements of one cell differ by."""
    parts = []
    for effect in _of_kind(results, workload, "a/a"):
        for response in used:
            pair = results.effect(workload, response, "a/a", effect.subject)
            if pair is None or pair.estimate is None:
                continue
            est = pair.estimate
            if est.interval is None:
                text = f"differs by {100 * abs(est.speedup - 1):.1f} % in one block"
            else:
                text = f"half-width {50 * (est.interval[1] - est.interval[0]):.1f} %"
            parts.append(f"{effect.subject}, {RESPONSE_NAMES[response]}: {text}")
    return "; ".join(parts)


def _identity(results: Results, workload: str) -> str:
    residuals = [i.residual for i in results.identities if i.workload == workload]
    if not residuals:
        return ""
    return (
        "Compile term plus Shapley values equal the total in every block, for optimizations and for layers; the largest "
        f"difference on log time is {max(residuals):.1e}."
    )


def _evidence(results: Results, workload: str) -> Table | None:
    rows = []
    for verdict in _verdicts(results, workload).values():
        tone: Tone = "grey" if verdict.verdict in UNCLAIMED else "strong"
        name, word = cell(verdict.optimization, tone=tone), _verdict_cell(verdict, with_reason=False)
        for result in verdict.expectations:
            rows.append(
                [
                    name,
                    word,
                    cell(
                        f"{result.direction} {result.counter}",
                        result.sentence,
                        "grey" if tone == "grey" else "",
                    ),
                    cell(count(result.off_mean)),
                    cell(count(result.on_mean)),
                    cell(f"{result.num_as_expected} of {result.num_pairs}" if result.num_pairs else "–"),
                    cell(verdict.reason if not result.num_pairs else "", tone="grey"),
                ]
            )
        if not verdict.expectations:
            rows.append([name, word, cell(verdict.reason, tone="grey"), EMPTY, EMPTY, EMPTY, cell("")])
    if not rows:
        return None
    if not any(row[-1]["main"] for row in rows):
        return table(
            ["optimization", "verdict", "what must differ", "off", "on", "pairs as declared"],
            [r[:-1] for r in rows],
        )
    return table(
        ["optimization", "verdict", "what must differ", "off", "on", "pairs as declared", "why"], rows
    )


def _compilations(results: Results, workload: str) -> Table | None:
    arms = [a for a in results.arms if a.workload == workload]
    shown = [(key, title) for key, title in COUNTERS if any(key in a.counters for a in arms)]
    if not shown:
        return None
    cold, warm = (any(getattr(a, f"compile_{s}_s") is not None for a in arms) for s in ("cold", "warm"))
    headers = ["arm", *(title for _, title in shown)]
    headers += ["compiling, cold"] * cold + ["compiling, warm"] * warm
    return table(headers, [_compilation_row(arm, shown, cold, warm) for arm in arms])


def _compilation_row(
    arm: ArmSummary, shown: Sequence[tuple[str, str]], cold: bool, warm: bool
) -> list[TableCell]:
    row = [cell(arm.arm, "; ".join(arm.flags), "strong")]
    row += [cell(count(arm.counters.get(key))) for key, _ in shown]
    row += [cell(seconds(arm.compile_cold_s))] * cold + [cell(seconds(arm.compile_warm_s))] * warm
    return row


def _curves(results: Results, workload: str) -> Table | None:
    rows = []
    for arm in (a for a in results.arms if a.workload == workload and a.num_trials):
        distances = [d for d in results.curve_distances if (d.workload, d.arm) == (workload, arm.arm)]
        largest = [d.max_deviation for d in distances if d.max_deviation is not None]
        beyond = [d.first_step_beyond for d in distances if d.first_step_beyond is not None]
        notes = "; ".join(dict.fromkeys(d.note for d in distances if d.note))
        if arm.arm == "eager":
            compared = [cell("reference", tone="grey"), EMPTY, EMPTY]
        else:
            first = cell(f"step {min(beyond)}") if beyond else cell("never") if largest else EMPTY
            compared = [
                cell(number(max(largest), 2) if largest else "–", notes),
                first,
                cell("not tested", tone="grey"),
            ]
        rows.append(
            [cell(arm.arm, tone="strong"), cell(number(arm.final_loss)), cell(number(arm.metric)), *compared]
        )
    headers = [
        "arm",
        "final loss",
        "validation metric",
        "largest relative deviation",
        "first beyond 1e-5",
        "equivalent?",
    ]
    return table(headers, rows) if rows else None


def _dropped(results: Results, workload: str) -> list[str]:
    """Blocks that some number could not use, with the trial that is missing."""
    return list(
        dict.fromkeys(reason for e in results.effects if e.workload == workload for reason in e.dropped)
    )[:20]


def _verdict_cell(verdict: EvidenceVerdict | None, *, with_reason: bool = True) -> TableCell:
    if verdict is None:
        return EMPTY
    small = verdict.reason if with_reason and verdict.verdict in ("inert", "not measured") else ""
    return cell(verdict.verdict, small, TONES.get(verdict.verdict, "grey"))


def _verdicts(results: Results, workload: str) -> dict[str, EvidenceVerdict]:
    return {v.optimization: v for v in results.evidence if v.workload == workload}


def _emulation(results: Results, name: str) -> str:
    return next((f.emulation or "" for f in results.study.factors if f.name == name), "")


def _of_kind(results: Results, workload: str, kind: ContrastKind) -> list[Effect]:
    """Effects of one kind in the steady response: one per subject."""
    return [e for e in results.effects if (e.workload, e.response, e.kind) == (workload, "steady", kind)]
