"""Results of a workload -> what its numbers lack: those that no cell identifies, and the blocks omitted from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.analysis.results.effects import Response
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES, why_not_reported
from ablate.core.contrast import ContrastKind
from ablate.core.units import name_some

KIND_WORDS: Mapping[ContrastKind, str] = {
    "total": "total",
    "compile": "compile term",
    "optimization": "Shapley value of",
    "layer": "Shapley value of the layer",
    "interaction": "pair",
    "moebius": "Moebius term of",
    "lack-of-fit": "lack of fit",
    "level": "level",
    "leave-one-out": "leaving out one of",
    "add-one-in": "adding one of",
    "ladder": "ladder steps",
    "eager-optimization": "in eager mode",
    "a/a": "noise floor from a second measurement of",
}
MOST_CELLS = 8


def unidentified_numbers(speed: Speed, used: Sequence[Response]) -> list[str]:
    """What the design or missing trials leave open, one line per kind of number (and reason)."""
    lacking: dict[str, tuple[list[str], list[str]]] = {}
    others: dict[str, list[str]] = {}
    for effect in speed.effects:
        if effect.response not in used[:1] or not effect.refused:
            continue
        name = KIND_WORDS[effect.kind]
        if effect.lacks:
            subjects, cells = lacking.setdefault(name, ([], []))
            subjects.append(effect.subject)
            cells += effect.lacks
        else:
            others.setdefault(why_not_reported(effect), []).append(f"{name} {effect.subject}".strip())
    lines = [_lack(name, subjects, cells) for name, (subjects, cells) in lacking.items()]
    return lines + [f"{', '.join(names)}: {reason}" for reason, names in others.items()]


def dropped_blocks(result: WorkloadResults, used: Sequence[Response]) -> list[str]:
    """Numbers that rest on fewer blocks than the study has, grouped by the blocks they use."""
    every = {trial.block for trial in result.quality.trials}
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for effect in result.speed.effects:
        if effect.estimate is None or not effect.dropped:
            continue
        if effect.response in used and len(effect.estimate.blocks) < len(every):
            key = RESPONSE_NAMES[effect.response], effect.estimate.blocks
            groups.setdefault(key, []).append(f"{KIND_WORDS[effect.kind]} {effect.subject}".strip())
    return [
        f"{response}, block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))} only: {name_some(names, 6)}"
        for (response, blocks), names in groups.items()
    ]


def _lack(name: str, subjects: Sequence[str], cells: Sequence[str]) -> str:
    needed = list(dict.fromkeys(cells))
    text = ", ".join(needed[:MOST_CELLS]) + (" and more" if len(needed) > MOST_CELLS else "")
    what = f"{name} {', '.join(s for s in subjects if s)}".strip()
    return f"{what}: this design has no cell {text}"
