"""Random SIGKILLs over the runner, a worker and their trials -> every trial exactly once, or what went wrong.

    python -m benchmarks.chaos --kills 100                      a ledger in a file: two workers take turns on one device
    python -m benchmarks.chaos --kills 100 --ledger postgresql  two workers that share the ledger and the records only
    python -m benchmarks.chaos --kills 10 --trainer real        the same with trials as `ablate run` trains them

Prints its seed, the kills and each promise; exits 1 when one was broken. PostgreSQL is started in a temporary folder.
The trials of the long run are fast ones (see `trainer.py`): 100 kills need hundreds of starts, and a real trial is 6 to
15 seconds of imports and compilation, in which no ledger is touched.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ablate.cli.loading import load_study
from ablate.files.paths import StudyPaths
from ablate.run.ledger.open import find_address, open_store
from ablate.run.options import RunOptions
from ablate.track.sync import sync_study
from benchmarks.chaos.checks import Check, check, check_mlflow, collect
from benchmarks.chaos.cluster import start_cluster
from benchmarks.chaos.killing import Chaos

SPEC = Path(__file__).parent / "chaos.yaml"
HEARTBEAT_S = "2"
REAL: dict[str, Any] = {"longest_s": 25.0, "blocks": 1}  # trials take longer: fewer of them, and fewer kills in each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ledger", choices=("journal", "postgresql"), default="journal")
    parser.add_argument("--trainer", choices=("fast", "real"), default="fast")
    parser.add_argument("--seed", type=int, default=None, help="seed of victims and moments; left out, a new one")
    parser.add_argument("--minutes", type=float, default=30.0, help="give up after this time")
    parser.add_argument("--keep", type=Path, default=None, help="keep everything in this folder")
    given = parser.parse_args()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    say(f"chaos: {given.kills} kills, ledger {given.ledger}, {given.trainer} trials, seed {seed}")
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    say(f"{datetime.now(UTC):%Y-%m-%d}, {machine}, Python {platform.python_version()}")
    with folder_for(given.keep) as folder, ledger_at(given.ledger, folder) as ledger:
        return run(given, seed, folder, ledger)


def run(given: argparse.Namespace, seed: int, folder: Path, ledger: Mapping[str, str]) -> int:
    started = time.monotonic()
    trace, runs = folder / "trace", folder / "runs"
    trace.mkdir()
    runs.mkdir()
    paths = StudyPaths.of("chaos", runs=runs, reports=folder / "reports")
    chaos = Chaos(
        spec=SPEC,
        runs=runs.resolve(),
        kills=given.kills,
        seed=seed,
        environments=make_environments(folder, trace, given, ledger),
        deadline=started + 60 * given.minutes,
        ended=lambda: sum(1 for _ in paths.records.glob("*/record.json")),
        trace=trace / "log.txt",
        report=say,
        **(REAL if given.trainer == "real" else {}),
    )
    try:
        chaos.rage()
        say(f"all kills done after {time.monotonic() - started:.0f} s; {chaos.ended()} trials have ended")
        chaos.calm_down()
    finally:
        chaos.stop()
    say(f"study done after {time.monotonic() - started:.0f} s")
    os.environ.update(ledger)
    checks = judge(paths, chaos, runs, trace, folder)
    say("kills: " + ", ".join(f"{count} {victim}" for victim, count in sorted(chaos.counts.items())))
    for one in checks:
        say(f"{'broken' if one.faults else 'kept  '}  {one.promise}")
        for fault in one.faults[:10]:
            say(f"          {fault}")
    return 1 if any(one.faults for one in checks) else 0


def judge(paths: StudyPaths, chaos: Chaos, runs: Path, trace: Path, folder: Path) -> list[Check]:
    loaded = load_study(SPEC, RunOptions(device="cpu"), runs=runs, reports=runs, blocks=chaos.blocks)
    store = open_store(loaded.study, paths, address=find_address(loaded.study))
    left = collect(loaded.trials, paths, store.optuna_study.get_trials(), trace)
    store.close()
    say(
        f"{len(left.planned)} trials planned, {len(left.current)} records, {len(left.aside)} attempts with a record set"
        f" aside, {len(left.entries)} ledger entries, {sum(line[0] == 'start' for line in left.log)} trainings started"
    )
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    first = sync_study(paths, uri)
    again = sync_study(paths, uri)
    problems = tuple(outcome.problem for outcome in (first, again) if outcome.problem)
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(first.experiment)
    found = [] if experiment is None else client.search_runs(
        [experiment.experiment_id], "tags.`ablate.kind` = 'trial'", max_results=5000
    )  # fmt: skip
    took = Check(promise="MLflow took everything", faults=problems)
    return [*check(left), check_mlflow(left, found, again.num_new), took]


def make_environments(
    folder: Path, trace: Path, given: argparse.Namespace, ledger: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    """Environment of the runner and of the worker; across hosts each has locks of its own, as hosts have."""
    root = str(Path(__file__).resolve().parents[2])
    shared = {
        **os.environ,
        **ledger,
        "PYTHONPATH": os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part),
        "CHAOS_TRACE": str(trace),
        "CHAOS_TRAINER": given.trainer,
        "ABLATE_CACHE": os.environ.get("ABLATE_CACHE", str(folder / "cache")),
        "OMP_NUM_THREADS": "1",
    }
    own = given.ledger == "postgresql"
    return {
        name: {**shared, "ABLATE_LOCKS": str(folder / (f"locks-{name}" if own else "locks"))}
        for name in ("runner", "worker")
    }


@contextlib.contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        yield Path(name)


@contextlib.contextmanager
def ledger_at(kind: str, folder: Path) -> Iterator[Mapping[str, str]]:
    """The variables that tell the workers which ledger to use."""
    if kind == "journal":
        yield {}
        return
    with start_cluster() as address:
        yield {"ABLATE_LEDGER": address, "ABLATE_HEARTBEAT_S": HEARTBEAT_S}


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
