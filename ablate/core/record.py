"""One trial -> `TrialRecord`, the only thing that the run side and the reading side share.

Format history (`format` in the JSON):
1  first version.
2  `identity.purpose`, `parity`, `margins`: parity trials, and the margins that were stated when a trial ran.
3  `files` and `digest`, checked on reading; the steady, startup and horizon time are worked out from the epochs.
4  `failed_after`, `times.step_clock`, `peak_reserved_memory_gib`; on a GPU `step_s` is of the device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal

from ablate.core.cell import PlannedTrial, Purpose
from ablate.core.evidence import Evidence, FailedStage, Machine
from ablate.core.recipe import Recipe
from ablate.core.serialize import to_dict
from ablate.core.study import Study

FORMAT = 4
Status = Literal["completed", "failed", "timed-out", "killed", "non-finite"]
CacheState = Literal["cold", "warm", "shared", "not-compiled"]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Which trial this is. `attempt` counts from 1; `key` is `PlannedTrial.key`; `workload_digest` is
    `WorkloadChoice.identity`, empty in old records."""

    study: str
    study_hash: str
    key: str
    workload: str
    execution: Literal["eager", "compiled"]
    levels: Mapping[str, str]
    effective_key: str
    arms: tuple[str, ...]
    block: int
    seed: int
    order: int
    attempt: int = 1
    purpose: Purpose = "timed"
    workload_digest: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a trial did not complete: one sentence, and the traceback or last output."""

    reason: str
    traceback: str = ""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Wall times of a trial, in seconds.

    Attributes:
        epoch_s: Each timed epoch, synchronized at its ends, compilation included.
        steady_epochs: The epochs after the first in which nothing compiled; without one there is no steady state.
        horizon_epochs: The horizon of the study.
        compile_s: Time inside the compiler.
        loader_wait_s: Time spent waiting for batches, per epoch; a GPU works meanwhile, so there it is an upper bound.
        first_step_s: The first step.
        step_clock: What the times of steps are read from: `host` clock, or events of the `device`.
    """

    epoch_s: tuple[float, ...]
    steady_epochs: tuple[int, ...]
    horizon_epochs: int
    compile_s: float
    loader_wait_s: tuple[float, ...]
    first_step_s: float
    step_clock: Literal["host", "device"] = "host"

    def __post_init__(self) -> None:
        if not set(self.steady_epochs) <= set(range(len(self.epoch_s))):
            raise ValueError(f"steady epochs {self.steady_epochs} of {len(self.epoch_s)} epochs")

    @property
    def steady_s(self) -> float | None:
        """Median of the steady epochs; None when there is no steady state."""
        return median(self.epoch_s[e] for e in self.steady_epochs) if self.steady_epochs else None

    @property
    def startup_s(self) -> float | None:
        """Total of the epochs minus number of epochs times `steady_s`: the price of getting started."""
        return None if self.steady_s is None else sum(self.epoch_s) - len(self.epoch_s) * self.steady_s

    @property
    def horizon_s(self) -> float | None:
        """`startup_s + horizon_epochs * steady_s`: extrapolating an epoch that still compiles would be a guess."""
        startup_s, steady_s = self.startup_s, self.steady_s
        return None if startup_s is None or steady_s is None else startup_s + self.horizon_epochs * steady_s


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A validation metric with its unit and direction, on the uncompiled module after training."""

    name: str
    value: float
    unit: str
    higher_is_better: bool
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class ParityWindow:
    """One restart of a parity trial.

    Attributes:
        start: Step of the eager checkpoint that it starts from.
        num_steps: Steps that were trained; fewer than asked for where the loss became non-finite.
        masks: Whether the arm's compiled code draws the dropout masks that its own uncompiled module draws from the
            same seed: `aligned`, `not aligned` (tier 1 says nothing then), or `no dropout`. Eager cells are aligned.
        note: How a misalignment showed, empty otherwise.
        stream_hash: Hash of the batches of the window.
    """

    start: int
    num_steps: int
    masks: Literal["aligned", "not aligned", "no dropout"]
    note: str = ""
    stream_hash: str = ""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """What a parity trial did; its series lie beside the record in `parity.parquet`, predictions in
    `predictions.parquet`.

    Attributes:
        windows: In the order trained.
        deterministic: In the eager reference: an unperturbed rerun was bitwise equal. None in other trials.
    """

    windows: tuple[ParityWindow, ...]
    deterministic: bool | None = None


@dataclass(frozen=True, kw_only=True)
class DataStamp:
    """What was trained on: digest of the dataset, hash of the batch stream, and sizes."""

    dataset: str
    dataset_digest: str
    stream_hash: str
    num_steps: int
    replay_gib: float | None = None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The process and machine of a trial: versions, device, threads, every variable that steers torch.

    None or empty = not recorded. `code` is the digest of the code that decides how a trial trains; the configs hold
    the settings of torch that are not at their default; `workload` is what a workload adds, e.g. its sampler.
    """

    python: str | None = None
    platform: str | None = None
    processor: str | None = None
    num_cpus: int | None = None
    num_threads: int | None = None
    device: str | None = None
    device_name: str | None = None
    device_memory_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None
    rank: int | None = None
    world_size: int | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    extensions: Mapping[str, str] = field(default_factory=dict)
    git_commit: str | None = None
    code: str | None = None
    dynamo_config: Mapping[str, str] = field(default_factory=dict)
    inductor_config: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, str] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """Everything known about one trial. Series (per step) lie beside it in `series.parquet`:
    columns `step`, `epoch`, `loss`, `lr`, `step_s`, `loader_wait_s`, on a GPU `host_step_s` too. `emulations` labels
    the optimizations whose level restores an older behavior; `precision` holds the settings that decide how numbers are
    rounded, e.g. `weights: float32`, `float32_matmul_precision: highest`, `autocast: off`: trials that differ there are
    not compared in their losses; `margins` are those that the spec stated when the trial ran (`loss`, `metric`; absent
    when it stated none); `failed_after` are stages after the training that failed: the training itself is `completed`,
    what they would have added is missing; peak memory of a device is what tensors took, reserved is what torch's
    allocator held, graph pools included; `files` are the digests of the tables beside the record, and `digest` is that
    of all other values (both are made by whoever writes the record).
    """

    format: int = FORMAT
    identity: Identity
    status: Status
    failure: Failure | None = None
    started_at: str
    ended_at: str
    cache_state: CacheState = "not-compiled"
    recipe: Mapping[str, Any] = field(default_factory=dict)
    expectations: Mapping[str, Any] = field(default_factory=dict)
    emulations: Mapping[str, str] = field(default_factory=dict)
    environment: Environment = field(default_factory=Environment)
    data: DataStamp | None = None
    times: Times | None = None
    metric: Metric | None = None
    peak_memory_gib: float | None = None
    peak_device_memory_gib: float | None = None
    peak_reserved_memory_gib: float | None = None
    final_loss: float | None = None
    evidence: Evidence = field(default_factory=Evidence)
    precision: Mapping[str, str] = field(default_factory=dict)
    parity: Parity | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    failed_after: tuple[FailedStage, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""

    @classmethod
    def begin(
        cls,
        study: Study,
        trial: PlannedTrial,
        *,
        started_at: str,
        attempt: int = 1,
        cache_state: CacheState = "not-compiled",
        recipe: Recipe | None = None,
    ) -> TrialRecord:
        """Begin the record of a trial with all that is known before it trains; whoever ends it replaces the rest.

        Args:
            study: The study as the run stored it; its margins are those that the trial ran under.
            trial: The planned trial.
            started_at: When, in UTC, as ISO 8601.
            attempt: 1 for the first attempt.
            cache_state: State of the compile cache it starts with.
            recipe: How the cell trains; None where the record is of no real training.
        """
        cell = trial.cell.cell
        labels = {f.name: f.info.emulations.get(cell.levels.get(f.name, "")) for f in study.factors}
        return cls(
            identity=Identity(
                study=study.name,
                study_hash=study.hash,
                key=trial.key,
                workload=trial.workload,
                execution=cell.execution,
                levels=dict(cell.levels),
                effective_key=trial.cell.effective_key,
                arms=trial.cell.arms,
                block=trial.block,
                seed=trial.seed,
                order=trial.order,
                attempt=attempt,
                purpose=trial.purpose,
                workload_digest=study.workload(trial.workload).identity,
            ),
            status="failed",
            started_at=started_at,
            ended_at=started_at,
            cache_state=cache_state,
            recipe={} if recipe is None else to_dict(recipe),
            expectations={f.name: to_dict(f.info.expectations) for f in study.factors},
            emulations={name: label for name, label in labels.items() if label},
            margins=study.margins_of(trial.workload),
        )

    @property
    def completed(self) -> bool:
        return self.status == "completed"

    @property
    def compiles(self) -> bool:
        """Whether its recipe compiles anything: an optimization may stop a compiled cell from compiling."""
        return bool(self.recipe.get("execution", self.identity.execution) == "compiled")

    def seal(self, files: Mapping[str, str]) -> dict[str, Any]:
        """The record as plain values, with the digests of the tables beside it and its own."""
        content = to_dict(replace(self, files=files))
        return {**content, "digest": content_digest(content)}


def content_digest(content: Mapping[str, Any]) -> str:
    """BLAKE2b (32 hex digits) of every value of a stored record, its own digest aside."""
    text = json.dumps({name: value for name, value in content.items() if name != "digest"}, sort_keys=True)
    text = text.replace("\\\\u", "\\u")  # half of a letter is stored as its escape, and read back as that
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
