"""Records, lattice and contrasts of a study -> per workload, the trials that may be compared, and why not others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablate.analysis.results.quality import Finding
from ablate.core.cell import Design, DesignedCell, PlannedTrial
from ablate.core.contrast import Contrast, Refusal
from ablate.core.record import Environment, Failure, TrialRecord
from ablate.core.study import Study
from ablate.core.units import grouped
from ablate.design.contrasts import make_contrasts, order_contrasts
from ablate.design.lattice import Lattice
from ablate.records.store import inspect_record

Arms = Mapping[str, tuple[DesignedCell, tuple[str, ...]]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a design asks of every workload.

    Attributes:
        orders: What each optimization adds in every place of every order.
        arms: Effective keys that have an arm name -> the cell that is measured, and all arm names of the key.
    """

    study: Study
    design: Design
    lattice: Lattice
    contrasts: tuple[Contrast, ...]
    refusals: tuple[Refusal, ...]
    orders: Mapping[str, tuple[Contrast, ...]]
    arms: Arms

    @classmethod
    def of(cls, study: Study, design: Design) -> Layout:
        contrasts, refusals = make_contrasts(study, design)
        return cls(
            study=study,
            design=design,
            lattice=Lattice.of(study, design),
            contrasts=tuple(contrasts),
            refusals=tuple(refusals),
            orders=order_contrasts(study, design),
            arms=_named_keys(design),
        )

    def key_of(self, arm: str) -> str | None:
        """Effective key of an arm; None when the design has none of that name."""
        return next((key for key, (_, names) in self.arms.items() if arm in names), None)


def _named_keys(design: Design) -> Arms:
    cells = grouped((cell.effective_key, cell) for cell in design.cells)
    names = {key: tuple(dict.fromkeys(arm for cell in same for arm in cell.arms)) for key, same in cells.items()}
    return {key: (cells[key][0], arms) for key, arms in names.items() if arms}


MATTERS = (
    "code",
    "cuda",
    "device",
    "device_name",
    "driver",
    "extensions",
    "num_cpus",
    "num_threads",
    "packages",
    "python",
    "workload",
    "world_size",
)
HARMLESS = ("packages.optuna",)
NOT_RUN = "not run"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial record and the folder that holds it and its series; `altered` names the file that was changed since."""

    record: TrialRecord
    folder: Path
    altered: str = ""

    @property
    def place(self) -> tuple[int, str]:
        """Block and effective key."""
        return self.record.identity.block, self.record.identity.effective_key


@dataclass(frozen=True, kw_only=True)
class WorkloadTrials:
    """The trials of one workload.

    Attributes:
        usable: Completed and comparable trials by (block, effective key).
        absent: Why a planned trial is not usable, by (block, effective key).
        ended: The last attempt of every planned trial that has ended, by (block, effective key).
        earlier: Attempts before the last.
        not_comparable: Why nothing of this workload may be pooled; None when it may.
        parity: Every attempt of a parity trial, in the order of the attempts.
        findings: What was set aside, and why.
    """

    workload: str
    planned: tuple[PlannedTrial, ...]
    usable: Mapping[tuple[int, str], Trial]
    absent: Mapping[tuple[int, str], str]
    ended: Mapping[tuple[int, str], Trial]
    earlier: tuple[Trial, ...] = ()
    not_comparable: str | None = None
    parity: tuple[Trial, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(sorted({trial.block for trial in self.planned}))

    def name_of(self, key: str) -> str:
        """Name of the cell behind an effective key, as planned."""
        return next((t.cell.name for t in self.planned if t.cell.effective_key == key), key)

    def why_absent(self, block: int, key: str) -> str:
        reason = self.absent.get((block, key), "not planned")
        return f"block {block}: {self.name_of(key)} {reason}"


def read_trials(folder: Path) -> list[Trial]:
    """Read the trials below a folder of records; one that is not as it was left counts as one that failed.

    Raises:
        StoredDataError: a record is unreadable, or written by a newer ablate.
    """
    trials = []
    for path in sorted(folder.glob("*/record.json")):
        record, altered = inspect_record(path.parent, tables=True)
        if altered:
            record = replace(
                record, status="failed", failure=Failure(reason=altered), times=None, metric=None, parity=None
            )
        trials.append(Trial(record=record, folder=path.parent, altered=altered))
    return trials


def select_trials(
    study: Study, design: Design, trials: Iterable[Trial]
) -> tuple[tuple[WorkloadTrials, ...], tuple[Finding, ...]]:
    """Sort the records of a study by workload and set aside what must not be compared.

    Args:
        study: Its hash is the version that records must belong to.
        design: The planned trials.
        trials: Every record found.

    Returns:
        One entry per workload of the study, with findings about records of another version of the study, batch
        streams that differ inside a block, and environments that differ; and findings about any other workload.
    """
    study_hash = study.hash
    ours: dict[str, list[Trial]] = {choice.name: [] for choice in study.workloads}
    findings: dict[str, list[Finding]] = {}
    for trial in sorted(trials, key=lambda t: t.record.identity.attempt):
        identity = trial.record.identity
        if trial.altered:
            text = f"{trial.altered} and its trial is omitted; delete its folder to run it again"
            findings.setdefault(identity.workload, []).append(Finding(kind="not comparable", text=text))
        if identity.study_hash == study_hash:
            ours.setdefault(identity.workload, []).append(trial)
        else:
            text = (
                f"record {trial.folder.name} belongs to another version of this study "
                f"({identity.study_hash}, not {study_hash}) and is omitted"
            )
            findings.setdefault(identity.workload, []).append(Finding(kind="not comparable", text=text))
    selected = tuple(
        _select(choice.name, design, ours[choice.name], findings.pop(choice.name, [])) for choice in study.workloads
    )
    return selected, tuple(finding for others in findings.values() for finding in others)


def what_matters(environment: Environment) -> dict[str, str]:
    """The parts of an environment that must be equal for trials to be pooled, flattened to text."""
    found = {name: value for name in MATTERS if (value := getattr(environment, name)) is not None}
    return {name: value for name, value in _flatten(found) if name not in HARMLESS}


def _select(name: str, design: Design, trials: Sequence[Trial], findings: list[Finding]) -> WorkloadTrials:
    planned = tuple(t for t in design.trials if t.workload == name)
    places = {(t.block, t.cell.effective_key) for t in planned}
    timed = (trial for trial in trials if trial.record.identity.purpose == "timed")
    attempts = grouped((trial.place, trial) for trial in timed if trial.place in places)
    ended = {place: tries[-1] for place, tries in attempts.items()}
    usable = {place: trial for place, trial in ended.items() if trial.record.completed}
    absent = {place: why_absent(ended.get(place)) for place in places if place not in usable}
    for block, text in _mixed_streams(usable.values()).items():
        findings.append(Finding(kind="not comparable", text=text))
        for place in [place for place in usable if place[0] == block]:
            del usable[place]
            absent[place] = "is not comparable (the batch streams of this block differ)"
    difference = mixed_data(usable.values()) or mixed_environments(list(usable.values()))
    if difference:
        findings.append(Finding(kind="not comparable", text=difference))
    return WorkloadTrials(
        workload=name,
        planned=planned,
        usable=usable,
        absent=absent,
        ended=ended,
        earlier=tuple(trial for tries in attempts.values() for trial in tries[:-1]),
        not_comparable=difference,
        parity=tuple(trial for trial in trials if trial.record.identity.purpose == "parity"),
        findings=tuple(findings),
    )


def why_absent(trial: Trial | None) -> str:
    """Say why a planned trial is not usable: it has not run, or how it ended."""
    if trial is None:
        return NOT_RUN
    failure = trial.record.failure
    return trial.record.status + (f" ({failure.reason})" if failure else "")


def _mixed_streams(trials: Iterable[Trial]) -> dict[int, str]:
    """Blocks whose trials did not see the same batches in the same order -> what differs."""
    hashes = grouped((t.place[0], t.record.data.stream_hash) for t in trials if t.record.data is not None)
    return {
        block: f"block {block}: the trials saw different batch streams ("
        + "; ".join(f"{value[:12]}: {count} trials" for value, count in sorted(Counter(streams).items()))
        + "), so they are not paired"
        for block, streams in hashes.items()
        if len(set(streams)) > 1
    }


def mixed_data(trials: Iterable[Trial]) -> str | None:
    """What differs between the options of the workload or the data of trials; None when they were the same."""
    trials = list(trials)
    workloads = {identity.workload_digest for trial in trials if (identity := trial.record.identity).workload_digest}
    if len(workloads) > 1:
        return "the trials trained the workload with different options, or from different files, and are not pooled"
    digests = Counter(trial.record.data.dataset_digest for trial in trials if trial.record.data is not None)
    if len(digests) < 2:
        return None
    parts = " against ".join(f"{digest[:12]} ({n} trials)" for digest, n in sorted(digests.items()))
    return f"the trials were trained on different data and are not pooled: {parts}"


def mixed_precision(trials: Sequence[Trial]) -> str:
    """Why the losses of trials are not compared: the settings in which they round, in order; empty when they are."""
    names = dict.fromkeys(name for trial in trials for name in trial.record.precision)
    found = {
        name: list(dict.fromkeys(trial.record.precision.get(name, "not recorded") for trial in trials))
        for name in names
    }
    parts = [f"{name}: {' against '.join(values)}" for name, values in found.items() if len(values) > 1]
    if not parts:
        return ""
    return f"not paired, since their numbers are rounded by different settings ({'; '.join(parts)})"


def mixed_environments(trials: Sequence[Trial]) -> str | None:
    """What differs between the environments of trials that would be pooled; None when nothing does."""
    values = grouped(item for trial in trials for item in what_matters(trial.record.environment).items())
    parts = []
    for name, present in sorted(values.items()):
        counts = Counter([*present, *["not recorded"] * (len(trials) - len(present))])
        if len(counts) > 1:
            parts.append(f"{name}: " + " against ".join(f"{v} ({n} trials)" for v, n in sorted(counts.items())))
    if not parts:
        return None
    return "the trials ran in environments that differ and are not pooled: " + "; ".join(parts)


def _flatten(value: Any, prefix: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flatten(item, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _flatten(item, f"{prefix}.{index}")
    else:
        yield prefix, str(value)
