"""Results of a workload -> what its numbers lack: those that no cell identifies, and the blocks omitted from others."""

from collections.abc import Mapping, Sequence

from ablate.analysis.results.effects import Effect, Response
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.words.speed import RESPONSE_NAMES, why_not_reported
from ablate.core.contrast import ContrastKind
from ablate.core.units import grouped, name_some

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
    refused = [e for e in speed.effects if e.response in used[:1] and e.refused]
    lacking = grouped((KIND_WORDS[e.kind], e) for e in refused if e.lacks)
    others = grouped((why_not_reported(e), _named(e)) for e in refused if not e.lacks)
    lines = [_lack(name, effects) for name, effects in lacking.items()]
    return lines + [f"{', '.join(names)}: {reason}" for reason, names in others.items()]


def dropped_blocks(result: WorkloadResults, used: Sequence[Response]) -> list[str]:
    """Numbers that rest on fewer blocks than the study has, grouped by the blocks they use."""
    every = {trial.block for trial in result.quality.trials}
    groups = grouped(
        ((RESPONSE_NAMES[e.response], e.estimate.blocks), _named(e))
        for e in result.speed.effects
        if e.estimate and e.dropped and e.response in used and len(e.estimate.blocks) < len(every)
    )
    return [
        f"{response}, block{'s' if len(blocks) > 1 else ''} {', '.join(map(str, blocks))} only: {name_some(names, 6)}"
        for (response, blocks), names in groups.items()
    ]


def _named(effect: Effect) -> str:
    return f"{KIND_WORDS[effect.kind]} {effect.subject}".strip()


def _lack(name: str, effects: Sequence[Effect]) -> str:
    needed = list(dict.fromkeys(cell for effect in effects for cell in effect.lacks))
    text = ", ".join(needed[:MOST_CELLS]) + (" and more" if len(needed) > MOST_CELLS else "")
    what = f"{name} {', '.join(e.subject for e in effects if e.subject)}".strip()
    return f"{what}: this design has no cell {text}"
