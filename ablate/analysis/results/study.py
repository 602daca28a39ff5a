"""What the analysis found -> frozen types, stored as `results.json`, the only input of figures, PDF and tables.

Everything about a workload is in its `WorkloadResults`, grouped as `speed`, `training` and `quality`.

Format history (`format` in the JSON):
1  first version.
2  whether the training changed.
3  one value per workload. Earlier files are not read: `ablate analyze` makes them anew.

Legend: an effect is a difference of log times (positive = faster); a speed-up is `exp(effect)` (above 1 = faster).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.analysis.results.quality import Finding, Quality
from ablate.analysis.results.speed import Speed
from ablate.analysis.results.training import Training
from ablate.core.study import Study

FORMAT = 3


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The answer for one workload in words."""

    workload: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WorkloadResults:
    """Everything that the report says about one workload.

    Attributes:
        metric: Name of its validation metric.
        data: Its dataset with the digest, number of steps, and hash of the batch stream by block; empty without trials.
        headline: The answer in words; empty before a trial has ended.
    """

    name: str
    title: str
    metric: str = ""
    headline: tuple[str, ...] = ()
    speed: Speed
    training: Training = field(default_factory=Training)
    quality: Quality = field(default_factory=Quality)
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_run(self) -> bool:
        """At least one trial has ended."""
        return any(not trial.not_run for trial in self.quality.trials)


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that the report says.

    Attributes:
        workloads: In the order of the study.
        findings: About records that belong to none of them.
        environment: What matters of the environments of all trials, with every value that occurs.
    """

    format: int = FORMAT
    study: Study
    study_hash: str
    num_cells: int
    num_keys: int
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    workloads: tuple[WorkloadResults, ...] = ()
    findings: tuple[Finding, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    def workload(self, name: str) -> WorkloadResults:
        """Look up one workload of the study."""
        return next(found for found in self.workloads if found.name == name)

    @property
    def workloads_run(self) -> tuple[WorkloadResults, ...]:
        """The workloads of which at least one trial has ended."""
        return tuple(found for found in self.workloads if found.has_run)

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """The answers in words."""
        return tuple(Headline(workload=found.name, sentences=found.headline) for found in self.workloads_run)
