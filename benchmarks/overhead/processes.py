"""A cell -> one process that trains it as a study does, or as a bare loop, and what it took from start to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ablate.core.cell import PlannedTrial
from ablate.core.recipe import Recipe
from ablate.core.request import TrialRequest
from ablate.core.study import Study
from ablate.records.store import read_series, write_json
from ablate.run.ledger.lock_owner import LockOwner
from ablate.run.process.child import TRAIN_COMMAND, run_child
from ablate.run.process.launch import REQUEST_NAME, Launch, child_environment

ROOT = Path(__file__).parents[2]
STAGES = ("process and imports", "settings, environment", "workload, its data", "trainer")
_EVENT_OF_STAGE = ("start", "model", "train")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the processes of a cell work.

    Attributes:
        folder: Records and results.
        study: The study, stored as `study.json` in the folder.
        trial, recipe: The cell.
    """

    folder: Path
    study: Study
    trial: PlannedTrial
    recipe: Recipe

    def environment(self) -> dict[str, str]:
        """Environment of a trial, which the bare loop gets too."""
        return child_environment(
            os.environ,
            compile_cache=self.folder / "compile-cache",
            recipe_environment=self.recipe.environment,
            num_threads=self.study.num_threads,
            visible_gpu="",
        )

    def request(self) -> TrialRequest:
        """The request of one trial."""
        study_json = self.folder / "study.json"
        write_json(study_json, self.study)
        return TrialRequest(
            study_json=str(study_json),
            trial=self.trial,
            recipe=self.recipe,
            attempt=1,
            record_folder=str(self.folder / "record"),
            cache_state="warm",
        )


@dataclass(frozen=True, kw_only=True)
class Training:
    """What one process took.

    Attributes:
        epoch_s: Seconds per epoch.
        losses: Loss per step.
        stage_s: Seconds by stage until the first step begins; empty for the bare loop.
        first_step_s: Seconds of the first step; None for the bare loop.
        end_s: Seconds from the record's last event to the end of the process; None for the bare loop.
    """

    epoch_s: tuple[float, ...]
    losses: tuple[float, ...]
    stage_s: Mapping[str, float]
    first_step_s: float | None = None
    end_s: float | None = None

    @property
    def steady_s(self) -> float:
        """Median epoch after the first."""
        return median(self.epoch_s[1:])


def train_trial(place: Place, command: tuple[str, ...] = TRAIN_COMMAND) -> Training:
    """Train the cell in a trial's process, started as a study starts it.

    Raises:
        RuntimeError: the trial did not complete.
    """
    arrived: dict[str, float] = {}

    def on_event(event: Mapping[str, object]) -> None:
        name = f"train {event['epoch']}" if event["stage"] == "train" else str(event["stage"])
        arrived[name] = time.monotonic()

    request = place.request()
    began = time.monotonic()
    record = run_child(
        Launch(
            study=place.study,
            request=request,
            command=command,
            compile_cache=place.folder / "compile-cache",
            visible_gpu="",
            on_event=on_event,
            owner=LockOwner(),
        )
    )
    ended = time.monotonic()
    if not record.completed or record.times is None:
        raise RuntimeError(f"the trial did not complete: {record.failure}")
    moments = [
        began,
        arrived["start"],
        arrived["model"],
        arrived["train 0"],
        arrived["train 1"] - record.times.epoch_s[0],
    ]
    series = read_series(Path(request.record_folder))
    return Training(
        epoch_s=record.times.epoch_s,
        losses=tuple(series.loss),
        first_step_s=record.times.first_step_s,
        stage_s={stage: after - before for stage, before, after in zip(STAGES, moments[:-1], moments[1:], strict=True)},
        end_s=ended - arrived["done"],
    )


def train_bare(place: Place) -> Training:
    """Train the cell in a process of the bare loop."""
    request, out = place.folder / "bare-request.json", place.folder / "bare.json"
    write_json(request, place.request())
    subprocess.run(
        [sys.executable, "-m", "benchmarks.overhead.bare", str(request), str(out)],
        check=True,
        env=place.environment(),
        cwd=ROOT,
        capture_output=True,
    )
    found = json.loads(out.read_text(encoding="utf-8"))
    return Training(epoch_s=tuple(found["epoch_s"]), losses=tuple(found["losses"]), stage_s={})


def time_until_trial(spec: Path, folder: Path) -> float:
    """Seconds from `ablate run` to the start of the first trial's process, which is then interrupted.

    Raises:
        RuntimeError: no trial started.
    """
    runs, log = folder / "runs", folder / "run.log"
    folder.mkdir(parents=True, exist_ok=True)
    before = time.time()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ablate", "run", str(spec), "--runs", str(runs), "--no-report"],
            cwd=folder,
            stdout=output,
            stderr=output,
        )
        while process.poll() is None and not (found := list(runs.glob(f"*/records/*/{REQUEST_NAME}"))):
            time.sleep(0.01)
        if process.poll() is not None:
            raise RuntimeError(f"`ablate run` started no trial: {log.read_text(encoding='utf-8')}")
        started = found[0].stat().st_mtime
        process.send_signal(signal.SIGTERM)  # SIGINT is ignored by what runs in the background
        process.wait()
    found[0].unlink(missing_ok=True)
    return started - before
