"""What the parent hands to a trial's process -> `TrialRequest`, and the progress lines that come back.

A trial is started as `python -m ablate.train trial REQUEST.json`. The child trains, writes `series.parquet` and then
`record.json` into `record_folder`, and exits 0 even when the training failed in a way it could record. If it leaves no
`record.json` (killed, timed out, crashed interpreter), the parent writes the record: from `trained.json` where the
training was over, so that it counts. `EXIT_DISK` is no trial's fault: the disk is full or closed, and the trial is
trained again later.

Progress comes back on `progress_fd`, one JSON object a line, written only outside the timed part:
`{"stage": "start" | "model" | "train" | "validate" | "audit" | "done", "epoch": int, "epochs": int,
"epoch_s": float}`, or `{"stage": "disk", "disk_error": str}` before `EXIT_DISK`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ablate.core.cell import PlannedTrial
from ablate.core.evidence import CompileEvent, Evidence
from ablate.core.optimization import OffMeans
from ablate.core.recipe import Recipe
from ablate.core.record import CacheState, TrialRecord
from ablate.core.study import Study

EXIT_DISK = 74  # EX_IOERR
TRAINED_NAME = "trained.json"  # the record of a trial whose training is over, while later stages still add to it


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """One trial to execute.

    Attributes:
        study_json: Path of the resolved study.
        trial: The planned trial.
        recipe: How the cell trains; composed by the parent because its environment must precede torch.
        attempt: 1 for the first attempt.
        record_folder: Where `record.json` and `series.parquet` go.
        cache_state: Whether the compile cache folder started empty (`cold`) or from the same cell (`warm`).
        device_index: Index of the GPU, None on a CPU.
        progress_fd: Descriptor for progress lines, None for silence.
        git_commit: Commit of the working tree that started the study, if any.
        worker: Environment of the worker that started it (see `ablate.run.devices`): a block never mixes them.
        reference_folder: For a parity trial of an arm: record folder of the eager parity trial, with its checkpoints.
    """

    study_json: str
    trial: PlannedTrial
    recipe: Recipe
    attempt: int
    record_folder: str
    cache_state: CacheState
    device_index: int | None = None
    progress_fd: int | None = None
    git_commit: str | None = None
    worker: Mapping[str, str] = field(default_factory=dict)
    reference_folder: str | None = None

    def begin_record(self, study: Study, started_at: str) -> TrialRecord:
        """Begin the record of this trial, in the process that trains it or, where that left none, in its parent."""
        return TrialRecord.begin(
            study,
            self.trial,
            started_at=started_at,
            attempt=self.attempt,
            cache_state=self.cache_state,
            recipe=self.recipe,
        )


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """One recipe to train for a few untimed steps, in a process of its own (`python -m ablate.train probe FILE`).

    Attributes:
        study_json: A study with one workload; its timing says how many steps.
        result_json: Where the `ProbeResult` goes.
        hazards: Also give the compiled forward batches at the edge of what can be sampled.
    """

    study_json: str
    recipe: Recipe
    result_json: str
    hazards: bool = False
    device_index: int | None = None


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """One batch at the edge of what can be sampled, after (or before) an ordinary one.

    Attributes:
        name: For instance `0 edges of customer f2p_customer_id transactions`.
        sizes: Nodes by type, edges by `source relation target`.
        loss_difference: Relative difference of the compiled loss from the eager one on the same batch and weights.
        events: Compilations that it caused, each with its failed guard.
    """

    name: str
    sizes: Mapping[str, int]
    loss_difference: float
    events: tuple[CompileEvent, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What one recipe showed; `failure` is the reason when it could not be trained."""

    evidence: Evidence = field(default_factory=Evidence)
    first_loss: float | None = None
    hazards: tuple[Hazard, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One optimization switched from where it was.

    Attributes:
        inert: Why it cannot act here; then there is no result.
        changes: Counter -> (as it was, switched), for the counters that the optimization declares.
        verdict: As in a study's evidence: `structural` is a counter that only a GPU could turn into time.
    """

    optimization: str
    before: str
    after: str
    inert: str | None = None
    changes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    verdict: Literal["bites", "vacuous", "inert", "structural", "not measured"] = "not measured"
    result: ProbeResult | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What a few steps of a workload show, and what each optimization would change.

    On a `device` that is a GPU syncs are waits of the host that happened, elsewhere operators that would make it wait.
    """

    workload: str
    execution: str
    backend: str
    num_batches: int
    off_means: OffMeans
    levels: Mapping[str, str]
    result: ProbeResult
    probes: tuple[Probe, ...] = ()
    device: str = "cpu"
