"""Sections of a spec that are right one by one -> combinations of them that are impossible."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ablate.core.errors import UserError
from ablate.core.study import LOOKS, WorkloadChoice
from ablate.spec.errors import Fault, clean, did_you_mean
from ablate.spec.models import DataSection, LoaderSection, SpecFile
from ablate.spec.names import Names, file_digest
from ablate.spec.source import Source

HUB_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def read_workloads(texts: object, names: Names, source: Source) -> tuple[tuple[WorkloadChoice, ...], list[Fault]]:
    """Build the workload choices that can be built; everything else becomes a fault at its item.

    Items that are no text have a fault already and are passed over.
    """
    choices: dict[str, WorkloadChoice] = {}
    faults: list[Fault] = []
    for i, text in enumerate(texts if isinstance(texts, (list, tuple)) else ()):
        if not isinstance(text, str):
            continue
        position = source.at_value(("workloads", i))
        try:
            found = names.workload(text, from_command_line=position.option is not None)
        except UserError as error:
            faults.append(Fault(position=position, text=str(error)))
            continue
        if found.info.name in choices:
            faults.append(Fault(position=position, text=f"workload '{found.info.name}' is given twice; remove one"))
        choices[found.info.name] = WorkloadChoice(info=found.info, path=found.path, digest=file_digest(found.path))
    return tuple(choices.values()), faults


def is_folder(dataset: str) -> bool:
    """Tell a folder (written with a slash, or a leading `~` or `.`) from the name of a hub dataset."""
    return "/" in dataset or dataset.startswith(("~", "."))


def data_faults(data: DataSection, source: Source) -> Iterator[Fault]:
    """Find settings of `data` that do not go together."""
    dataset = data.dataset
    if dataset != "look-alike" and not is_folder(dataset):
        near = did_you_mean(dataset, ["look-alike"])
        if not HUB_NAME.match(dataset) or "did you mean" in near:
            text = f"unknown dataset '{clean(dataset)}'{near if 'mean' in near else '; write a folder with a slash'}"
            yield Fault(position=source.at_value(("data", "dataset")), text=text)
    if data.scale is not None and dataset != "look-alike":
        text = "scale is for the look-alike only; remove it or write dataset: look-alike"
        yield Fault(position=source.at_key(("data", "scale")), text=text)
    if data.revision is not None and (dataset == "look-alike" or is_folder(dataset)):
        text = "revision is for datasets of the hub only; remove it"
        yield Fault(position=source.at_key(("data", "revision")), text=text)


def loader_faults(loader: LoaderSection, source: Source) -> Iterator[Fault]:
    """Find settings of `loader` that do not go together."""
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
