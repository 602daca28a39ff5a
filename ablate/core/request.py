"""What the parent hands to a trial's process -> `TrialRequest`, and the progress lines that come back.

A trial is started as `python -m ablate.train trial REQUEST.json`. The child trains, writes `series.parquet` and then
`record.json` into `record_folder`, and exits 0 even when the training failed in a way it could record. If it leaves no
`record.json` (killed, timed out, crashed interpreter), the parent writes the record. `EXIT_DISK` is no trial's
fault: the disk is full or closed, its last line says so, and the trial is trained again later.

Progress comes back on `progress_fd`, one JSON object a line, written only outside the timed part:
`{"stage": "start" | "data" | "model" | "train" | "validate" | "audit" | "done", "epoch": int, "epochs": int,
"epoch_s": float}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.core.cell import PlannedTrial
from ablate.core.recipe import Recipe
from ablate.core.record import CacheState

EXIT_DISK = 74  # EX_IOERR


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
        worker: Environment of the worker that started it (see `ablate.run.worker`): a block never mixes them.
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
