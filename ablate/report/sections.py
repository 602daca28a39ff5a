"""Results of one workload -> its part of the report: effects, layers, evidence, compilations, training, figures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ablate.analysis.results.effects import Response
from ablate.analysis.results.speed import ArmSummary, EvidenceVerdict, Recompilation, Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES, evidence_reason, saved_compilations
from ablate.core.contrast import ContrastKind
from ablate.core.evidence import Counter, counter_of
from ablate.core.study import Study
from ablate.core.units import grouped
from ablate.design.contrasts import layers_of
from ablate.report.attribution import attribution_section, dropped_blocks, unidentified_numbers
from ablate.report.cells import EMPTY, Table, TableCell, Tone, cell, count, seconds, speedup_cell, table
from ablate.report.training import training_section

MOST_ROWS = 12
LONGEST_GUARD = 150


def recompilation_table(speed: Speed) -> Table | None:
    """One row per guard, the earliest first; None where nothing was compiled again.

    The same guard of one cell and function is one row, with its first batch and the seeds that met it.
    """
    groups = grouped(((found.name, found.function, _guard(found)), found) for found in speed.recompilations)
    if not groups:
        return None
    ordered = sorted(groups.items(), key=lambda item: (item[1][0].step, item[0]))
    rows = [_row(key, found) for key, found in ordered[:MOST_ROWS]]
    if len(ordered) > MOST_ROWS:
        rest = cell(f"and {len(ordered) - MOST_ROWS} more", "tables/recompilations.csv", "grey")
        rows.append([rest, *(cell("", tone="grey") for _ in range(4))])
    return table(["cell", "function", "guard that failed", "first at", "seeds"], rows)


def _row(key: tuple[str, str, str], found: list[Recompilation]) -> list[TableCell]:
    name, *texts = key
    seeds = ", ".join(dict.fromkeys(str(f.seed) for f in found))
    first = cell(f"step {found[0].step}", found[0].batch)
    return [cell(name, tone="strong"), *map(cell, texts), first, cell(seeds)]


def _guard(found: Recompilation) -> str:
    """The guard without its number, its comment and, for a size, the size itself."""
    if found.gave_up:
        return "recompile limit reached: eager from here on"
    text = found.guard.partition(" # ")[0].partition(". expected")[0]
    prefix, mark, rest = text.partition(": ")
    text = rest if mark and all(part.isdigit() for part in prefix.split("/")) else text
    return text if len(text) <= LONGEST_GUARD else text[: LONGEST_GUARD - 1] + "…"


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
    rows = [_reference(speed, "compile", "naive compile", "eager against naive", used)]
    for factor in study.varying:
        verdict = speed.verdict(factor.name)
        greyed = _is_greyed(verdict)
        layer = cell(factor.info.layer, tone="grey" if greyed else "")
        numbers = _numbers(speed, "optimization", factor.name, used, greyed)
        rows.append([_name(factor.name, factor.emulation or "", greyed), layer, _verdict_cell(verdict), *numbers])
    rows.append(_reference(speed, "total", "full", "eager against full", used))
    return table(["step", "layer", "did it bite?", *(RESPONSE_NAMES[r] for r in used)], rows)


def _reference(speed: Speed, kind: ContrastKind, name: str, small: str, used: Sequence[Response]) -> list[TableCell]:
    return [cell(name, small, "strong"), EMPTY, EMPTY, *(speedup_cell(speed.effect(r, kind)) for r in used)]


def _name(name: str, small: str, greyed: bool) -> TableCell:
    return cell(name, small, "grey" if greyed else "strong")


def _numbers(
    speed: Speed, kind: ContrastKind, subject: str, used: Sequence[Response], greyed: bool
) -> Iterator[TableCell]:
    return (speedup_cell(speed.effect(r, kind, subject), simultaneous=True, greyed=greyed) for r in used)


def _is_greyed(verdict: EvidenceVerdict | None) -> bool:
    return verdict is not None and verdict.verdict in UNCLAIMED


def _layers(study: Study, speed: Speed, used: Sequence[Response]) -> Table | None:
    if not _measured(speed, "layer", used):
        return None
    rows = []
    for layer, members in layers_of(study.varying).items():
        names = [f.name for f in study.varying if f.name in members]
        verdicts = [verdict for name in names if (verdict := speed.verdict(name))]
        greyed = bool(verdicts) and all(map(_is_greyed, verdicts))
        rows.append([_name(layer, ", ".join(names), greyed), *_numbers(speed, "layer", layer, used, greyed)])
    return table(["layer", *(RESPONSE_NAMES[r] for r in used)], rows) if rows else None


def _secondary(speed: Speed, used: Sequence[Response]) -> list[dict[str, Any]]:
    found = []
    for kind, title in SECONDARY.items():
        if not _measured(speed, kind, used):
            continue
        rows = []
        for name in dict.fromkeys(e.subject for e in speed.of_kind(kind)):
            if all(effect is None or effect.refused for effect in (speed.effect(r, kind, name) for r in used)):
                continue
            verdict = speed.verdict(name)
            greyed = _is_greyed(verdict)
            first = _name(name, verdict.emulation if verdict else "", greyed)
            rows.append([first, _verdict_cell(verdict), *_numbers(speed, kind, name, used, greyed)])
        if rows:
            headers = [kind, "did it bite?", *(RESPONSE_NAMES[r] for r in used)]
            found.append({"title": title, "table": table(headers, rows)})
    return found


def _measured(speed: Speed, kind: ContrastKind, used: Sequence[Response]) -> bool:
    """Whether any number of this kind was measured."""
    return any(e.estimate is not None for e in speed.effects if e.kind == kind and e.response in used)


def _noise(speed: Speed, used: Sequence[Response]) -> str:
    """The A/A pair: what two measurements of one cell differ by."""
    parts = []
    for subject, response in ((effect.subject, r) for effect in speed.of_kind("a/a") for r in used):
        pair = speed.effect(response, "a/a", subject)
        if pair is None or (est := pair.estimate) is None:
            continue
        text = f"differs by {100 * abs(est.speedup - 1):.1f} % in one block"
        if est.interval is not None:
            text = f"half-width {50 * (est.interval[1] - est.interval[0]):.1f} %"
        parts.append(f"{subject}, {RESPONSE_NAMES[response]}: {text}")
    return "; ".join(parts)


def _identity(speed: Speed) -> str:
    if not speed.identities:
        return ""
    return (
        "Compile term plus Shapley values equal the total in every block, for optimizations and for layers; "
        f"the largest difference on log time is {max(i.residual for i in speed.identities):.1e}."
    )


def _evidence(study: Study, speed: Speed) -> Table | None:
    rows = []
    own = {name: Counter(title=title, unit=title) for f in study.factors for name, title in f.info.counters.items()}
    for verdict in speed.evidence:
        greyed = _is_greyed(verdict)
        unmeasured = verdict.verdict in ("inert", "not measured")
        why = evidence_reason(verdict) if unmeasured else verdict.emulation
        if verdict.jointly:
            why = "; ".join(filter(None, [why, "naive against full: the others are switched too"]))
        first = [_name(verdict.optimization, why, greyed), _verdict_cell(verdict, small=False)]
        for result in verdict.expectations:
            tone: Tone = "grey" if greyed else ""
            pairs = f"{result.num_as_expected} of {result.num_pairs}" if result.num_pairs else "-"
            what = cell(f"{result.direction} {counter_of(result.counter, own).title}", result.sentence, tone)
            numbers = (count(result.off_mean), count(result.on_mean), pairs)
            rows.append([*first, what, *(cell(text, tone=tone) for text in numbers)])
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
