"""What a study under fire left behind -> each promise with whether it was kept, and why not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.files.paths import StudyPaths
from ablate.records.store import read_records


@dataclass(frozen=True, kw_only=True)
class Check:
    """A promise; `faults` is empty when it was kept."""

    promise: str
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Left:
    """Everything that was left: the plan, records (current and set aside), ledger entries, and the trainer's trace."""

    planned: Sequence[PlannedTrial]
    current: Sequence[TrialRecord]
    aside: Sequence[TrialRecord]
    entries: Sequence[FrozenTrial]
    log: Sequence[tuple[str, int, int, str]]
    races: Sequence[str]


def collect(planned: Sequence[PlannedTrial], paths: StudyPaths, entries: Sequence[FrozenTrial], trace: Path) -> Left:
    """Read what was left.

    Args:
        planned: Trials of the study.
        paths: Its files.
        entries: Entries of its ledger.
        trace: Folder of the trainer's trace.
    """
    records = list(read_records(paths.records))
    return Left(
        planned=planned,
        current=[record for folder, record in records if ".attempt-" not in folder.name],
        aside=[record for folder, record in records if ".attempt-" in folder.name],
        entries=entries,
        log=[_parse(line) for line in _lines(trace / "log.txt")],
        races=_lines(trace / "races.txt"),
    )


def check(left: Left) -> list[Check]:
    """The promises that need no MLflow."""
    return [
        Check(promise="one completed record for every planned trial, none lost", faults=_lost(left)),
        Check(promise="no trial was started again after it had ended", faults=_again(left)),
        Check(promise="no two processes on one device or in one trial at a time", faults=tuple(left.races)),
        Check(promise="one completed ledger entry for every planned trial, nothing open", faults=_ledger(left)),
        Check(promise="ledger and records agree on attempt and steady time", faults=_disagree(left)),
    ]


def check_mlflow(left: Left, runs: Sequence[Any], sent_again: int) -> Check:
    """MLflow runs of trials (their keys and states) against the records."""
    faults = [f"a second sync sent {sent_again} trials again"] if sent_again else []
    finished = Counter(_key_of(run) for run in runs if run.info.status == "FINISHED")
    for trial in left.planned:
        if finished[trial.key] != 1:
            faults.append(f"{trial.key}: {finished[trial.key]} finished runs in MLflow")
    if len(runs) != len(left.current) + len(left.aside):
        faults.append(f"{len(runs)} runs in MLflow, {len(left.current) + len(left.aside)} records")
    return Check(promise="MLflow has one finished run for every trial, and one for every record", faults=tuple(faults))


def _key_of(run: Any) -> str:
    return str(run.data.tags.get("ablate.trial_key", ""))


def _lost(left: Left) -> tuple[str, ...]:
    status = defaultdict(list)
    for record in left.current:
        status[record.identity.key].append(record.status)
    wanted = {trial.key for trial in left.planned}
    faults = [f"{key}: {status[key] or 'no record'}" for key in sorted(wanted) if status[key] != ["completed"]]
    return (*faults, *(f"{key}: not planned" for key in status if key not in wanted))


def _again(left: Left) -> tuple[str, ...]:
    ended: set[str] = set()
    faults = []
    for what, pid, attempt, key in left.log:
        if what == "end":
            ended.add(key)
        elif key in ended:
            faults.append(f"{key}: process {pid} started attempt {attempt} after it had ended")
    ends = Counter(key for what, _, _, key in left.log if what == "end")
    return (*faults, *(f"{key} ended {number} times" for key, number in ends.items() if number > 1))


def _ledger(left: Left) -> tuple[str, ...]:
    complete = Counter(e.user_attrs["key"] for e in left.entries if e.state == TrialState.COMPLETE)
    faults = [f"{t.key}: {complete[t.key]} completed entries" for t in left.planned if complete[t.key] != 1]
    return (*faults, *(f"entry {e.number} is {e.state.name}" for e in left.entries if not e.state.is_finished()))


def _disagree(left: Left) -> tuple[str, ...]:
    told = {e.user_attrs["key"]: e for e in left.entries if e.state == TrialState.COMPLETE}
    faults = []
    for record in left.current:
        entry, steady = told.get(record.identity.key), record.times.steady_s if record.times else None
        if entry is not None and (entry.user_attrs["attempt"], entry.value) != (record.identity.attempt, steady):
            faults.append(
                f"{record.identity.key}: attempt {record.identity.attempt} and {steady} s in the record, "
                f"attempt {entry.user_attrs['attempt']} and {entry.value} s in the ledger"
            )
    numbers = Counter((e.user_attrs["key"], e.user_attrs["attempt"]) for e in left.entries)
    return (*faults, *(f"{key}: attempt {n} has {count} entries" for (key, n), count in numbers.items() if count > 1))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _parse(line: str) -> tuple[str, int, int, str]:
    what, pid, attempt, key = line.split(" ", 3)
    return what, int(pid), int(attempt), key
