"""`TrialRequest` -> trained cell -> `record.json` and its series: the life of one trial's process."""

import json
import math
import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ablate.core.errors import AblateError, DiskError
from ablate.core.evidence import Evidence, FailedStage, LaterStage, MachineSnapshot
from ablate.core.record import Failure, TrialRecord
from ablate.core.request import TRAINED_NAME, TrialRequest
from ablate.core.study import Study
from ablate.files.disk import explain_disk_errors, find_disk_error
from ablate.files.stopwatch import Stopwatch
from ablate.records.store import read_study, write_json, write_predictions, write_record, write_series
from ablate.train.clock import summarize_times
from ablate.train.observe.diagnostics import add_counters, add_syncs
from ablate.train.observe.environment import describe_environment, describe_precision, end_training, explain_failure
from ablate.train.observe.machine import describe_machine, snapshot_machine
from ablate.train.observe.stage_profile import add_stages
from ablate.train.parity.trial import train_parity
from ablate.train.parity.windows import predictions_columns
from ablate.train.session import Session, apply_settings, open_session
from ablate.workloads.contract import Predicts


class ProgressPipe:
    """Writes progress lines to the parent, outside the timed part; a parent that is gone is not an error."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def send(self, stage: str, **facts: Any) -> None:
        """Send `{"stage": stage, **facts}`."""
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, (json.dumps({"stage": stage, **facts}) + "\n").encode())
        except OSError:  # the parent was killed; this trial goes on and its record is found later
            self._descriptor = None


def execute_trial(request: TrialRequest) -> TrialRecord:
    """Train the requested cell and write its record and series; failures of the training are recorded, not raised.

    Raises:
        DiskError: a disk is full or closed; the parent is told.
    """
    progress, folder = ProgressPipe(request.progress_fd), Path(request.record_folder)
    try:
        with explain_disk_errors(folder):
            return _execute(request, progress, folder)
    except DiskError as error:
        progress.send("disk", disk_error=str(error))
        raise


def _execute(request: TrialRequest, progress: ProgressPipe, folder: Path) -> TrialRecord:
    study = read_study(Path(request.study_json))
    watch = Stopwatch()
    record = request.begin_record(study, watch.started_at)
    try:
        record = _train(request, study, progress, record, folder)
    except Exception as error:  # noqa: BLE001 -- whatever a workload or the compiler raises is the trial's result
        failure = Failure(reason=_reason(error), traceback=traceback.format_exc())
        record = replace(record, status="failed", failure=failure)
    record = replace(record, ended_at=watch.ended_at())
    write_json(folder / "evidence.json", record.evidence)  # a copy for people; the record holds it too
    write_record(folder, record)
    (folder / TRAINED_NAME).unlink(missing_ok=True)
    progress.send("done", status=record.status)
    return record


def _train(
    request: TrialRequest, study: Study, progress: ProgressPipe, record: TrialRecord, folder: Path
) -> TrialRecord:
    progress.send("start")
    before = snapshot_machine(on_gpu=study.device == "cuda")
    apply_settings(request.recipe, study.num_threads)
    device = _device(study, request)
    record = replace(record, environment=describe_environment(device, request.git_commit, before))
    progress.send("model")
    epochs = study.timing.epochs

    def on_epoch(epoch: int, seconds: float) -> None:
        progress.send("train", epoch=epoch + 1, epochs=epochs, epoch_s=seconds)

    session = open_session(
        study, request.trial.workload, request.recipe, seed=request.trial.seed, device=device, on_epoch=on_epoch
    )
    seen = replace(record.environment, workload=getattr(session.workload, "environment", {}))
    record = replace(record, environment=seen, precision=describe_precision(session))
    progress.send("train", epoch=0, epochs=epochs)
    if request.trial.purpose == "parity":
        return train_parity(record, request, study, session, folder)
    session.train()
    later = _LaterStages(_with_training(record, study, session, folder), folder)
    later.run("machine", lambda record: _with_machine(record, study, before))
    later.run_on_evidence("evidence", lambda _: session.watch.collect(compiled=session.recipe.execution == "compiled"))
    if later.record.completed:
        progress.send("validate")
        later.run("prediction", lambda record: _with_predictions(record, session, folder))
        progress.send("audit")
        later.run_on_evidence("counters", lambda evidence: add_counters(evidence, session, study.factors))
        later.run_on_evidence("audit", lambda evidence: add_syncs(evidence, session))
        later.run_on_evidence("profile", lambda evidence: add_stages(evidence, session))
    return later.record


def _with_training(record: TrialRecord, study: Study, session: Session, folder: Path) -> TrialRecord:
    """Add times, losses and memory, all that the training itself measured; write the series."""
    steps_per_epoch, steps, losses = study.timing.steps_per_epoch, session.module.steps, session.module.losses.tolist()
    columns = {
        "step": list(range(len(losses))),
        "epoch": [step // steps_per_epoch for step in range(len(losses))],
        "loss": losses,
        "lr": [float(rate) for rate in session.module.learning_rates],
        "step_s": steps.step_s,
        "loader_wait_s": session.stream.wait_s,
    }
    write_series(folder, columns if steps.host_step_s is None else {**columns, "host_step_s": steps.host_step_s})
    times = summarize_times(
        session.clock.epoch_s,
        session.watch.compile_steps,
        steps_per_epoch,
        study.timing.horizon_epochs,
        session.watch.compile_s,
        session.stream.wait_s,
        steps,
    )
    bad = next((step for step, loss in enumerate(losses) if not math.isfinite(loss)), None)
    problem = None if bad is None else f"the loss is {losses[bad]} at step {bad}"
    data = session.stamp(session.stream.hash, len(losses))
    return replace(end_training(record, session.device, problem, data=data), times=times, final_loss=losses[-1])


class _LaterStages:
    """The record of a training, and the stages after it that add to it.

    A stage that fails leaves the record as it was and is named in it. For a process that ends meanwhile the record lies
    in `TRAINED_NAME`, with the stage that it was in.
    """

    def __init__(self, record: TrialRecord, folder: Path) -> None:
        self.record, self._folder = record, folder

    def run(self, stage: LaterStage, add: Callable[[TrialRecord], TrialRecord]) -> None:
        """Run a stage.

        Raises:
            OSError: a disk is full or closed.
        """
        write_json(self._folder / TRAINED_NAME, self._without(FailedStage(stage=stage, reason="")))
        try:
            self.record = add(self.record)
        except Exception as error:  # noqa: BLE001 -- as in the training
            self.record = self._without(
                FailedStage(stage=stage, reason=_reason(error), traceback=traceback.format_exc())
            )

    def run_on_evidence(self, stage: LaterStage, add: Callable[[Evidence], Evidence]) -> None:
        """Run a stage that adds to the evidence only."""
        self.run(stage, lambda record: replace(record, evidence=add(record.evidence)))

    def _without(self, failed: FailedStage) -> TrialRecord:
        return replace(self.record, failed_after=(*self.record.failed_after, failed))


def _with_machine(record: TrialRecord, study: Study, before: MachineSnapshot) -> TrialRecord:
    after = snapshot_machine(on_gpu=study.device == "cuda", ours=True)
    return replace(record, environment=replace(record.environment, machine=describe_machine(before, after)))


def _with_predictions(record: TrialRecord, session: Session, folder: Path) -> TrialRecord:
    """Predict the validation split, write the predictions and add the metric; nothing where it cannot be judged."""
    predictions = session.predict()
    if predictions is None or not isinstance(session.workload, Predicts):
        return record
    write_predictions(folder, predictions_columns({"timed": predictions}))
    return replace(record, metric=session.workload.score(predictions))


def _reason(error: Exception) -> str:
    """What a record says of an error.

    Raises:
        OSError: it comes from the disk, which is no trial's fault: it is trained again when the disk is.
    """
    if isinstance(error, AblateError):
        return str(error)
    disk = find_disk_error(error)
    if disk is not None:
        raise disk from error
    return explain_failure(error)


def _device(study: Study, request: TrialRequest) -> torch.device:
    if study.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise AblateError(f"the study wants a GPU, but torch {torch.__version__} sees none")
    return torch.device("cuda", request.device_index or 0)
