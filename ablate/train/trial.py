"""`TrialRequest` -> trained cell -> `record.json` and its series: the life of one trial's process."""

import json
import math
import os
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ablate.core.errors import AblateError, DiskError
from ablate.core.record import Failure, TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.study import Study
from ablate.files.disk import explain_disk_errors, find_disk_error
from ablate.files.stopwatch import Stopwatch
from ablate.records.store import read_study, write_json, write_predictions, write_record, write_series
from ablate.train.loop import summarize_times
from ablate.train.observe.diagnostics import add_untimed
from ablate.train.observe.environment import describe_environment, describe_precision, end_training, explain_failure
from ablate.train.observe.machine import describe_machine, snapshot_machine
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
    except AblateError as error:
        record = _failed(record, str(error), traceback.format_exc())
    except Exception as error:  # whatever a workload or the compiler raises is the trial's result
        disk = find_disk_error(error)
        if disk is not None:  # no trial's fault: it is trained again when the disk is
            raise disk from error
        record = _failed(record, explain_failure(error), traceback.format_exc())
    record = replace(record, ended_at=watch.ended_at())
    write_json(folder / "evidence.json", record.evidence)  # a copy for people; the record holds it too
    write_record(folder, record)
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
    after = snapshot_machine(on_gpu=study.device == "cuda", ours=True)
    record = replace(record, environment=replace(seen, machine=describe_machine(before, after)))
    record = _with_training(record, request, study, session, folder)
    if record.status != "completed":
        return record
    progress.send("validate")
    predictions = session.predict()
    if predictions is not None and isinstance(session.workload, Predicts):
        write_predictions(folder, predictions_columns({"timed": predictions}))
        record = replace(record, metric=session.workload.score(predictions))
    progress.send("audit")
    return replace(record, evidence=add_untimed(record.evidence, session, study.factors))


def _with_training(
    record: TrialRecord, request: TrialRequest, study: Study, session: Session, folder: Path
) -> TrialRecord:
    """Add times, evidence, losses and memory; write the series."""
    steps_per_epoch, module, clock = study.timing.steps_per_epoch, session.module, session.clock
    evidence = session.watch.collect(compiled=request.recipe.execution == "compiled")
    step_s, epochs = _step_seconds(clock.starts_s, module.step_ends_s, steps_per_epoch)
    losses = module.losses.tolist()
    write_series(
        folder,
        {
            "step": list(range(len(losses))),
            "epoch": epochs,
            "loss": losses,
            "lr": [float(rate) for rate in module.learning_rates],
            "step_s": step_s,
            "loader_wait_s": session.stream.wait_s,
        },
    )
    times = summarize_times(
        clock.epoch_s,
        session.watch.compile_steps,
        steps_per_epoch,
        study.timing.horizon_epochs,
        evidence.counters["compile_s"],
        session.stream.wait_s,
        step_s[0],
    )
    bad = next((step for step, loss in enumerate(losses) if not math.isfinite(loss)), None)
    problem = None if bad is None else f"the loss is {losses[bad]} at step {bad}"
    data = session.stamp(session.stream.hash, len(losses))
    record = end_training(record, session.device, problem, evidence=evidence, data=data)
    return replace(record, times=times, final_loss=losses[-1])


def _step_seconds(
    epoch_starts: list[float], step_ends: list[float], steps_per_epoch: int
) -> tuple[list[float], list[int]]:
    """Wall time of each step (from the end of the one before, or the start of its epoch) and its epoch."""
    epochs = [step // steps_per_epoch for step in range(len(step_ends))]
    begins = [step_ends[step - 1] if step % steps_per_epoch else epoch_starts[e] for step, e in enumerate(epochs)]
    return [end - begin for begin, end in zip(begins, step_ends, strict=True)], epochs


def _device(study: Study, request: TrialRequest) -> torch.device:
    if study.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise AblateError(f"the study wants a GPU, but torch {torch.__version__} sees none")
    return torch.device("cuda", request.device_index or 0)


def _failed(record: TrialRecord, reason: str, trace: str) -> TrialRecord:
    return replace(record, status="failed", failure=Failure(reason=reason, traceback=trace))
