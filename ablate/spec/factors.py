"""The `optimizations` of a spec -> factors with their levels, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

from ablate.core.errors import UserError
from ablate.core.optimization import OffMeans, OptimizationInfo
from ablate.core.study import Factor
from ablate.spec.errors import Fault, clean, did_you_mean
from ablate.spec.models import OptimizationSection
from ablate.spec.names import Names, file_digest
from ablate.spec.source import Source


def read_factors(
    sections: Mapping[str, OptimizationSection], off_means: OffMeans, names: Names, source: Source
) -> tuple[tuple[Factor, ...], list[Fault]]:
    """Build the factors that can be built; everything else becomes a fault at its key or level."""
    factors: dict[str, Factor] = {}
    faults: list[Fault] = []
    for text, section in sections.items():
        path = ("optimizations", text)
        try:
            found = names.optimization(text)
        except UserError as error:
            faults.append(Fault(position=source.at_key(path), text=str(error)))
            continue
        if found.info.name in factors:
            sentence = f"a second optimization called '{found.info.name}'; remove one"
            faults.append(Fault(position=source.at_key(path), text=sentence))
            continue
        wrong = _wrong_levels(found.info, section)
        faults += [Fault(position=source.at_value((*path, key)), text=sentence) for key, sentence in wrong.items()]
        if wrong:
            continue
        factor = _factor(found.info, section, off_means, found.path)
        factors[factor.name] = factor
        if factor.off == factor.on:
            sentence = f"off and on are the same level '{factor.on}' of {factor.name}; choose two levels"
            faults.append(Fault(position=source.at_value(path), text=sentence))
    return tuple(factors.values()), faults


def _wrong_levels(info: OptimizationInfo, section: OptimizationSection) -> dict[str, str]:
    given = {"off": section.off, "on": section.on}
    return {
        key: f"{info.name} has no level '{clean(level)}'{did_you_mean(level, info.levels)}"
        for key, level in given.items()
        if level is not None and level not in info.levels
    }


def _factor(info: OptimizationInfo, section: OptimizationSection, off_means: OffMeans, path: str | None) -> Factor:
    meaning = section.off_means or off_means
    return Factor(
        info=info,
        off_means=meaning,
        off=section.off or info.off_level(meaning),
        on=section.on or info.on,
        setting=section.use,
        path=path,
        digest=file_digest(path),
    )
