"""Sections of a spec that are right one by one -> factors, margins, windows, and what is impossible together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ablate.core.errors import UserError, did_you_mean
from ablate.core.optimization import SUPPORTS, OffMeans, OptimizationInfo
from ablate.core.study import LOOKS, Factor, WorkloadChoice
from ablate.spec.errors import Fault, clean
from ablate.spec.models import LoaderSection, OptimizationSection, SpecFile
from ablate.spec.names import Names, file_digest
from ablate.spec.profiles import DEVICES
from ablate.spec.source import Source


def loader_faults(loader: LoaderSection, workloads: Iterable[WorkloadChoice], source: Source) -> Iterator[Fault]:
    """Find settings of `loader` that do not go together, or that a workload does not support."""
    unable = [choice.name for choice in workloads if "replay" not in choice.info.supports]
    if loader.mode == "replay" and unable:
        text = f"{', '.join(unable)} cannot keep batches in memory; write mode: live"
        yield Fault(position=source.at_value(("loader", "mode")), text=text)
    if loader.mode == "replay" and loader.num_workers > 0:
        text = "replay keeps sampled batches in memory and has no workers; write num_workers: 0 or mode: live"
        yield Fault(position=source.at_value(("loader", "num_workers")), text=text)


def sequential_faults(spec: SpecFile, source: Source) -> Iterator[Fault]:
    """A sequential study may look at its widths only at the numbers of blocks that its intervals are right for."""
    if spec.sequential is None:
        return
    looks = ", ".join(map(str, LOOKS))
    if spec.blocks not in LOOKS:
        path = ("blocks",) if ("blocks",) in source.values else ("sequential",)
        text = f"a sequential study starts with one of {looks} blocks, not {spec.blocks}"
        yield Fault(position=source.at_value(path), text=text)
    if spec.sequential.most not in LOOKS:
        text = f"a sequential study ends with one of {looks} blocks, not {spec.sequential.most}"
        yield Fault(position=source.at_value(("sequential", "most")), text=text)


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
        meaning = section.off_means or off_means
        factor = factors[found.info.name] = Factor(
            info=found.info,
            off_means=meaning,
            off=section.off or found.info.off_level(meaning),
            on=section.on or found.info.on,
            setting=section.use,
            path=found.path,
            digest=file_digest(found.path),
        )
        if factor.off == factor.on:
            sentence = f"off and on are the same level '{factor.on}' of {factor.name}; choose two levels"
            faults.append(Fault(position=source.at_value(path), text=sentence))
    return tuple(factors.values()), faults


def supports_faults(factors: Iterable[Factor], workloads: Sequence[WorkloadChoice], source: Source) -> Iterator[Fault]:
    """Optimizations that can act for some workloads of the study and not for others: they need two studies."""
    for factor in factors:
        for need in (need for need in factor.info.requires if need.startswith(SUPPORTS)):
            what = need.removeprefix(SUPPORTS)
            able = [choice.name for choice in workloads if what in choice.info.supports]
            unable = [choice.name for choice in workloads if choice.name not in able]
            if able and unable:
                text = (
                    f"{factor.name} acts on {', '.join(able)} but not on {', '.join(unable)} (no {what}); make two "
                    "studies of them"
                )
                yield Fault(position=source.at_key(("optimizations", factor.name)), text=text)


def _wrong_levels(info: OptimizationInfo, section: OptimizationSection) -> dict[str, str]:
    given = {"off": section.off, "on": section.on}
    return {
        key: f"{info.name} has no level '{clean(level)}'{did_you_mean(level, info.levels)}"
        for key, level in given.items()
        if level is not None and level not in info.levels
    }


def read_margins(
    key: str, given: Mapping[str, float], chosen: Iterable[WorkloadChoice], names: Names, source: Source
) -> tuple[dict[str, float], list[Fault]]:
    """Read `margin` or `metric_margin`, given by the name of a workload.

    A workload that is known but not trained is a fault only where the spec's own list of workloads applies: a profile
    or an option that trains fewer of them leaves the other margins without use.
    """
    trained = [choice.name for choice in chosen]
    known = [*trained, *names.catalog.workloads, *names.by_name]
    found: dict[str, float] = {}
    faults = []
    for name, margin in given.items():
        position = source.at_key(("equivalence", key, name))
        if name not in known:
            text = f"unknown workload '{clean(name)}'{did_you_mean(name, dict.fromkeys(known))}"
            faults.append(Fault(position=position, text=text))
        elif name not in trained and are_as_written(source, len(trained)):
            text = f"this study does not train {name}, only {', '.join(trained)}; remove this margin"
            faults.append(Fault(position=position, text=text))
        else:
            found[name] = margin
    return found, faults


def arm_faults(spec: SpecFile, known: Iterable[str], source: Source) -> Iterator[Fault]:
    """Arms that the study does not have, repeated ones (`full-again`), or arms where no choice is left.

    Args:
        spec: The spec.
        known: The arm names of the study.
        source: Places in the spec.
    """
    section, arms = spec.equivalence, [arm for arm in known if not arm.endswith("-again")]
    if section.arms and section.parity != "default":
        text = f"arms narrows the default parity trials; remove it, or parity: {section.parity}"
        yield Fault(position=source.at_key(("equivalence", "arms")), text=text)
        return
    for i, arm in enumerate(section.arms):
        if arm not in arms:
            text = f"unknown arm '{clean(arm)}'{did_you_mean(arm, arms)}"
            yield Fault(position=source.at_value(("equivalence", "arms", i)), text=text)


def window_faults(spec: SpecFile, source: Source) -> Iterator[Fault]:
    """Windows that all lie behind the last step leave no parity trial."""
    num_steps = spec.timing.epochs * spec.timing.steps_per_epoch
    if all(isinstance(window, int) and window >= num_steps for window in spec.equivalence.windows):
        text = f"every window starts behind the last of {num_steps} steps; write one before it, such as 0 or middle"
        yield Fault(position=source.at_value(("equivalence", "windows")), text=text)


def are_as_written(source: Source, num_read: int) -> bool:
    """Tell whether the workloads are the spec's own list, read without fault; not a profile's nor an option's."""
    listed, place = source.value.get("workloads"), source.at_value(("workloads",))
    inside = (source.values.get(("profiles", device, "workloads")) for device in DEVICES)
    is_own = place.option is None and place not in inside
    return is_own and isinstance(listed, list) and len(listed) == num_read
