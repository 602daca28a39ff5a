"""A request -> a trial record: a process that trains like `ablate.train`, and leaves a trace of what it did.

Started as `python -m benchmarks.chaos.trainer trial REQUEST.json`. By default it trains a logistic regression in plain
Python, a fraction of a second; with `CHAOS_TRAINER=real` it trains as `python -m ablate.train` does, 6 to 15 seconds of
a CPU that are nearly all imports and compilation.

Either way it holds the device and its trial by files made with `O_EXCL`, apart from every lock of ablate: who finds one
of a process that lives has caught a race and notes it in `races.txt`. Each start and end is a line of `log.txt`.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ablate.core.record import Metric, Times, TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.serialize import from_dict
from ablate.core.study import Study
from ablate.files.paths import lock_folder

EPOCHS, ROWS, FEATURES = 3, 300, 8


def main(command: str, path: Path) -> int:
    if command == "prepare":
        return _real(command, path) if _is_real() else 0
    request = from_dict(TrialRequest, json.loads(path.read_text(encoding="utf-8")))
    trace = Path(os.environ["CHAOS_TRACE"])
    key, attempt = request.trial.key, request.attempt
    with alone(trace, lock_folder() / "chaos-device"), alone(trace, trace / f"{request.trial.slug}.running"):
        write_line(trace / "log.txt", f"start {os.getpid()} {attempt} {key}")
        code = _real(command, path) if _is_real() else train(request)
        write_line(trace / "log.txt", f"end {os.getpid()} {attempt} {key}")
    return code


def _is_real() -> bool:
    return os.environ.get("CHAOS_TRAINER") == "real"


def _real(command: str, path: Path) -> int:
    from ablate.train.__main__ import main as train_for_real

    return train_for_real([command, str(path)])


@contextmanager
def alone(trace: Path, claim: Path) -> Iterator[None]:
    """Hold a file that only one living process may hold."""
    me = f"{os.getpid()} {_start_of(os.getpid())}"
    while True:
        try:
            descriptor = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            break
        except FileExistsError:
            holder = claim.read_text(encoding="utf-8").split()
            if len(holder) == 2 and _start_of(int(holder[0])) == int(holder[1]):
                write_line(trace / "races.txt", f"{me} met {holder} at {claim.name}")
            claim.unlink(missing_ok=True)  # of a process that was killed
    os.write(descriptor, me.encode())
    os.close(descriptor)
    yield
    claim.unlink(missing_ok=True)


def _start_of(pid: int) -> int:
    """Start time of a process in clock ticks, which tells a reused process id apart; -1 when it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])


def write_line(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of several processes never mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def train(request: TrialRequest) -> int:
    """Train the small model and write the record as `ablate.records` does: whole or not at all."""
    started, loss, epoch_s = _now(), math.nan, []
    generator = random.Random(request.trial.seed)
    rows = [[generator.gauss(0, 1) for _ in range(FEATURES)] for _ in range(ROWS)]
    labels = [float(sum(row[:3]) > 0) for row in rows]
    weights = [0.0] * FEATURES
    for _ in range(EPOCHS):
        begin = time.perf_counter()
        for _ in range(10):
            loss = _step(weights, rows, labels)
        epoch_s.append(time.perf_counter() - begin)
    folder = Path(request.record_folder)
    partial = folder / ".record.json"
    with partial.open("w", encoding="utf-8") as stream:
        json.dump(_record(request, started, tuple(epoch_s), loss).seal({}), stream)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(folder / "record.json")
    return 0


def _step(weights: list[float], rows: list[list[float]], labels: list[float]) -> float:
    gradient, loss = [0.0] * len(weights), 0.0
    for row, label in zip(rows, labels, strict=True):
        guess = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, row, strict=True))))
        loss -= math.log(guess if label else 1 - guess) / len(rows)
        for place, x in enumerate(row):
            gradient[place] += (guess - label) * x / len(rows)
    for place, slope in enumerate(gradient):
        weights[place] -= slope
    return loss


def _record(request: TrialRequest, started: str, epoch_s: tuple[float, ...], loss: float) -> TrialRecord:
    study = from_dict(Study, json.loads(Path(request.study_json).read_text(encoding="utf-8")))
    return replace(
        request.begin_record(study, started),
        status="completed",
        ended_at=_now(),
        times=Times(
            epoch_s=epoch_s,
            steady_epochs=(1, 2),
            horizon_epochs=10,
            compile_s=0.0,
            loader_wait_s=(0.0,) * EPOCHS,
            first_step_s=epoch_s[0] / 10,
        ),
        metric=Metric(name="loss", value=loss, unit="nats", higher_is_better=False, num_rows=ROWS),
        final_loss=loss,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
