"""Stands in for `python -m ablate.train`: takes milliseconds, writes real records, misbehaves as `FAKE_BEHAVIOR` says.

It reads and writes them with the standard library alone, since importing `ablate.records` would take most of its time.

`FAKE_BEHAVIOR` is JSON, behavior by arm (`parity-<arm>` for its parity trial): `fail`, `crash`, `sigkill`, `hang`,
`non-finite`, `stubborn`, `exit`, `catch` (gets a SIGTERM, catches it and exits with code 0), `fail-late` (hangs, and
records a failure at SIGTERM), `sigkill-later`, `hang-later` (when the training is over), `unaligned` (parity: other
dropout masks than eager's);
`FAKE_SLEEP_S` is the length of a training; each start and end is a line of `FAKE_LOG`; with `FAKE_LOSS` a trial writes
its series too, with this loss, a tenth more per seed, in every step, and a metric of a thousandth per seed.
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ablate.core.evidence import FailedStage
from ablate.core.record import Failure, Metric, Parity, ParityWindow, Times, TrialRecord
from ablate.core.request import TRAINED_NAME, TrialRequest
from ablate.core.serialize import from_dict, to_dict
from ablate.core.study import Study
from ablate.files.disk import file_digest


def main() -> None:
    command, path = sys.argv[1], Path(sys.argv[2])
    if command == "prepare":
        log("prepare", path.parent.name)
        print("graph is ready", flush=True)
        sys.exit(int(os.environ.get("FAKE_PREPARE_EXIT", "0")))
    train(from_dict(TrialRequest, json.loads(path.read_text())))


def train(request: TrialRequest) -> None:
    name = request.trial.cell.name if request.trial.purpose == "timed" else f"parity-{request.trial.cell.name}"
    behavior = json.loads(os.environ.get("FAKE_BEHAVIOR", "{}")).get(name, "")
    started = datetime.now(UTC).isoformat()
    log("start", request.trial.key)
    if request.progress_fd is not None:
        os.write(request.progress_fd, b'{"stage": "train", "epoch": 1, "epochs": 3, "epoch_s": 0.5}\n')
    misbehave(behavior)
    if behavior == "fail-late":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(write_record(request, started, behavior)))
        time.sleep(600)
    time.sleep(float(os.environ.get("FAKE_SLEEP_S", "0.01")))
    if request.trial.purpose == "parity":
        use_checkpoints(request)
    if "FAKE_LOSS" in os.environ:
        write_loss(request)
    if behavior.endswith("-later"):
        audited = FailedStage(stage="audit", reason="")
        record = replace(make_record(request, started, behavior), failed_after=(audited,))
        Path(request.record_folder, TRAINED_NAME).write_text(json.dumps(to_dict(record)))
        misbehave(behavior.removesuffix("-later"))
    Path(request.record_folder, "environment.json").write_text(json.dumps(dict(os.environ)))
    write_record(request, started, behavior)
    log("end", request.trial.key)


def write_loss(request: TrialRequest) -> None:
    from ablate.records.store import SERIES, write_series

    loss = float(os.environ["FAKE_LOSS"]) + 0.1 * request.trial.seed
    steps = list(range(20))
    write_series(Path(request.record_folder), {**dict.fromkeys(SERIES.columns, steps), "loss": [loss for _ in steps]})


def use_checkpoints(request: TrialRequest) -> None:
    """Write one checkpoint per window (eager), or read those of the eager reference."""
    folder = Path(request.reference_folder or request.record_folder, "checkpoints")
    for path in (folder / f"step-{start:06d}.pt" for start in request.trial.windows):
        if request.reference_folder is None:
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"eager after {path.stem}")
        else:
            path.read_text()


def write_record(request: TrialRequest, started: str, behavior: str) -> None:
    partial = Path(request.record_folder, ".record.json")
    series = partial.with_name("series.parquet")
    files = {series.name: file_digest(series)} if series.exists() else {}
    partial.write_text(json.dumps(make_record(request, started, behavior).seal(files)))
    partial.rename(partial.with_name("record.json"))


def misbehave(behavior: str) -> None:
    if behavior == "fail":
        raise RuntimeError("planted failure")
    if behavior == "crash":
        os._exit(7)
    if behavior == "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    if behavior == "exit":
        sys.exit()
    if behavior == "catch":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(print("Received SIGTERM: 15")))
        os.kill(os.getpid(), signal.SIGTERM)
    if behavior == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behavior in ("hang", "stubborn"):
        time.sleep(600)


def make_record(request: TrialRequest, started: str, behavior: str) -> TrialRecord:
    trial = request.trial
    study = from_dict(Study, json.loads(Path(request.study_json).read_text()))
    times = Times(
        epoch_s=(0.7, 0.5, 0.5),
        steady_epochs=(1, 2),
        horizon_epochs=10,
        compile_s=0.1,
        loader_wait_s=(0.0, 0.0, 0.0),
        first_step_s=0.3,
    )
    finite = behavior not in ("non-finite", "fail-late")
    return replace(
        request.begin_record(study, started),
        status="completed" if finite else "non-finite",
        failure=None if finite else Failure(reason="loss is nan at step 3"),
        ended_at=datetime.now(UTC).isoformat(),
        times=times if trial.purpose == "timed" else None,
        metric=Metric(name="auc", value=0.001 * trial.seed, unit="0 to 1", higher_is_better=True, num_rows=9)
        if "FAKE_LOSS" in os.environ
        else None,
        parity=make_parity(request, study, behavior) if trial.purpose == "parity" else None,
    )


def make_parity(request: TrialRequest, study: Study, behavior: str) -> Parity:
    steps = study.timing.epochs * study.timing.steps_per_epoch
    masks: Literal["aligned", "not aligned"] = "not aligned" if behavior == "unaligned" else "aligned"
    windows = tuple(
        ParityWindow(start=start, num_steps=min(study.equivalence.window_steps, steps - start), masks=masks)
        for start in request.trial.windows
    )
    return Parity(windows=windows, deterministic=True if request.trial.reference is None else None)


def log(what: str, key: str) -> None:
    with open(os.environ["FAKE_LOG"], "a") as stream:
        stream.write(f"{what} {os.getpid()} {time.monotonic():.6f} {key}\n")


if __name__ == "__main__":
    main()
