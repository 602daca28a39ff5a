"""A parity trial's request and session -> its record, `parity.parquet`, `predictions.parquet`, eager's checkpoints."""

from pathlib import Path

from ablate.core.errors import TrialError
from ablate.core.record import Parity, TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.study import Study
from ablate.records.store import read_parity, write_parity, write_predictions
from ablate.train.observe.environment import end_training
from ablate.train.parity.checkpoint import read_checkpoint, write_checkpoint
from ablate.train.parity.runs import train_arm, train_reference
from ablate.train.parity.windows import ARM, EAGER, make_spans, predictions_columns
from ablate.train.session import Session


def train_parity(
    record: TrialRecord, request: TrialRequest, study: Study, session: Session, folder: Path
) -> TrialRecord:
    """Train the windows of a parity trial and write what they left; returns the record, without times.

    Raises:
        StoredDataError: a checkpoint or the series of the eager reference is absent or damaged.
    """
    trial = request.trial
    num_steps = study.timing.epochs * study.timing.steps_per_epoch
    spans = make_spans(trial.windows, study.equivalence.window_steps, num_steps)
    if trial.reference is None:
        runs = train_reference(
            session,
            spans,
            seed=trial.seed,
            reruns=study.equivalence.reruns,
            keep=lambda checkpoint: write_checkpoint(folder, checkpoint),
        )
    else:
        reference = _reference_folder(request)
        runs = train_arm(
            session, spans, lambda step: read_checkpoint(reference, step), _read_masks(reference), seed=trial.seed
        )
    write_parity(folder, runs.series())
    if runs.predictions:
        write_predictions(folder, predictions_columns(runs.predictions))
    bad = runs.first_bad(EAGER if trial.reference is None else ARM)
    return end_training(
        record,
        session.device,
        None if bad is None else f"the loss is {bad.loss} at step {bad.step} (window from step {bad.window})",
        parity=Parity(windows=tuple(runs.windows), deterministic=runs.deterministic),
        evidence=session.watch.collect(compiled=request.recipe.execution == "compiled"),
        data=session.stamp(runs.windows[0].stream_hash, sum(window.num_steps for window in runs.windows)),
    )


def _reference_folder(request: TrialRequest) -> Path:
    if request.reference_folder is None:
        raise TrialError(f"the request names no record folder of its eager reference {request.trial.reference}")
    return Path(request.reference_folder)


def _read_masks(reference: Path) -> dict[tuple[int, int], int]:
    table = read_parity(reference)
    own = table.loc[table["run"] == EAGER, ["window", "step", "mask"]].astype(int)
    return {(window, step): mask for window, step, mask in own.itertuples(index=False)}
