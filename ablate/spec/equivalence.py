"""The `equivalence` of a spec -> margins by task, and what is wrong with them, with the arms and the windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ablate.core.catalog import WorkloadInfo
from ablate.core.study import WorkloadChoice
from ablate.spec.errors import Fault, clean, did_you_mean
from ablate.spec.models import SpecFile
from ablate.spec.names import Names
from ablate.spec.profiles import DEVICES
from ablate.spec.source import Source


def read_margins(
    key: str, given: Mapping[str, float], chosen: Iterable[WorkloadChoice], names: Names, source: Source
) -> tuple[dict[str, float], list[Fault]]:
    """Read `margin` or `metric_margin`, given by task or by the name of a workload; returns them by task.

    A task that is known but not trained is a fault only where the spec's own list of workloads applies: a profile or an
    option that trains fewer of them leaves the other margins without use.
    """
    trained = {choice.name: choice.info for choice in chosen}
    infos: dict[str, WorkloadInfo] = dict(names.catalog.workloads) | trained
    tasks = dict.fromkeys(info.task for info in infos.values())
    trained_tasks = dict.fromkeys(info.task for info in trained.values())
    found: dict[str, float] = {}
    faults = []
    for name, margin in given.items():
        task = infos[name].task if name in infos else name
        position = source.at_key(("equivalence", key, name))
        if task not in tasks:
            text = f"unknown task '{clean(name)}'{did_you_mean(name, [*tasks, *infos])}"
            faults.append(Fault(position=position, text=text))
        elif task in found:
            faults.append(Fault(position=position, text=f"a second {key} of task {task}; remove one"))
        elif task not in trained_tasks and _are_as_written(source, len(trained)):
            text = f"no workload of this study trains {task}, only {', '.join(trained_tasks)}; remove this margin"
            faults.append(Fault(position=position, text=text))
        else:
            found[task] = margin
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


def _are_as_written(source: Source, num_read: int) -> bool:
    """Tell whether the workloads are the spec's own list, read without fault; not a profile's nor an option's."""
    listed, place = source.value.get("workloads"), source.at_value(("workloads",))
    inside = (source.values.get(("profiles", device, "workloads")) for device in DEVICES)
    is_own = place.option is None and place not in inside
    return is_own and isinstance(listed, list) and len(listed) == num_read
