"""Look-alike `real`, its graph, and 200 training steps of user-churn -> time and peak memory of each, at most 16 GB.

    python -m benchmarks.real_size                 the three stages, each only if it was not measured before
    python -m benchmarks.real_size --keep DIR      where data, graph, records and measurements are kept
    python -m benchmarks.real_size --again train   measure a stage and those after it anew

Each stage is the command that a study uses, in processes of its own: `ablate data make`, the preparation of a study,
and a trial (batches of 512, neighbors 128 then 64, 128 channels, eager). Exits 1 when a stage fails or needs more
memory.
Interrupt it at any time; what was measured is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths, cache_folder
from ablate.plugins.registry import make_catalog
from ablate.records.store import read_record, read_series, write_json
from ablate.run.progress import PlainProgress
from ablate.run.runner import run_study
from ablate.spec.reader import read_study
from ablate.workloads.relational.lookalike.marker import read_marker
from benchmarks.real_size.memory import GB, Cost, OutOfMemoryError, measure

SPEC = Path(__file__).parent / "real_size.yaml"
STAGES = ("generate", "materialize", "train")
MOST_GB, LEAST_AVAILABLE_GB, NUM_STEPS = 16.0, 4.0, 200


def main() -> int:
    """Print the lines; 0 when every stage ran within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, default=cache_folder() / "real-size", help="folder for everything")
    parser.add_argument("--again", choices=STAGES, help="measure this stage and those after it anew")
    arguments = parser.parse_args()
    keep = arguments.keep.resolve()
    os.environ["ABLATE_CACHE"] = str(keep / "cache")
    if arguments.again:
        for stage in STAGES[STAGES.index(arguments.again) :]:
            (keep / f"{stage}.json").unlink(missing_ok=True)
    study = read_study(SPEC, catalog=make_catalog(), device="cpu")
    paths = StudyPaths.of(study.name, runs=keep / "runs", reports=keep / "reports")
    work: Mapping[str, Callable[[], None]] = {
        "generate": lambda: generate(keep),
        "materialize": lambda: materialize(study, keep),
        "train": lambda: train(study, paths),
    }
    try:
        costs = {stage: measure_once(keep / f"{stage}.json", work[stage]) for stage in STAGES}
    except (OutOfMemoryError, subprocess.CalledProcessError) as error:
        print(error)
        return 1
    passed = all([print_stage(stage, cost) for stage, cost in costs.items()])
    print_sizes(keep)
    passed = print_trial(paths) and passed
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {psutil.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / GB:.0f} GB, torch {version('torch')}; the clock counts waiting for a "
        "processor that other work has, CPU does not"
    )
    return 0 if passed else 1


def measure_once(stored: Path, work: Callable[[], None]) -> Cost:
    """Do the work and store what it took, or read that from an earlier time."""
    if stored.exists():
        return Cost(**json.loads(stored.read_text(encoding="utf-8")))
    print(f"{stored.stem} ...", file=sys.stderr, flush=True)
    stored.parent.mkdir(parents=True, exist_ok=True)
    cost = measure(work, LEAST_AVAILABLE_GB)
    stored.write_text(json.dumps(asdict(cost)), encoding="utf-8")
    return cost


def dataset_folder(keep: Path) -> Path:
    """Where a study looks for its look-alike."""
    return keep / "cache" / "look-alike" / "real-0"


def generate(keep: Path) -> None:
    """Write the look-alike from nothing."""
    shutil.rmtree(dataset_folder(keep), ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "ablate", "data", "make", str(dataset_folder(keep)), "--scale", "real"],
        check=True,
        stdout=sys.stderr,
    )


def materialize(study: Study, keep: Path) -> None:
    """Materialize the graph from nothing."""
    shutil.rmtree(keep / "cache" / "graphs", ignore_errors=True)
    write_json(keep / "study.json", study)
    subprocess.run(
        [sys.executable, "-m", "ablate.train", "prepare", str(keep / "study.json")], check=True, stdout=sys.stderr
    )


def train(study: Study, paths: StudyPaths) -> None:
    """Run the study's one trial."""
    shutil.rmtree(paths.root, ignore_errors=True)
    timed_only = replace(make_design(study), parity=())
    run_study(study, timed_only, paths, PlainProgress(sys.stderr))


def print_stage(stage: str, cost: Cost) -> bool:
    """Print what a stage took; whether it stayed within the limit."""
    passed = cost.peak_gb <= MOST_GB
    print(
        f"{stage:<12}{cost.wall_s:>8.0f} s on the clock {cost.cpu_s:>8.0f} s of CPU {cost.peak_gb:>7.2f} GB at most "
        f"(limit {MOST_GB:g}): {'as it must be' if passed else 'NOT as it must be'}"
    )
    return passed


def print_sizes(keep: Path) -> None:
    """Print rows of the tables and what the files take."""
    marker = read_marker(dataset_folder(keep))
    assert marker is not None
    print(
        "rows: "
        + ", ".join(
            f"{name.removeprefix('db/').removeprefix('tasks/')} {count:,}"
            for name, count in sorted(marker.rows.items())
        )
    )
    for what, folder in (("data set", dataset_folder(keep)), ("graph", keep / "cache" / "graphs")):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{what} on disk: {size / GB:.2f} GB")


def print_trial(paths: StudyPaths) -> bool:
    """Print steps, losses and metric of the trial; whether it completed every step."""
    folders = [path.parent for path in paths.records.glob("*/record.json")]
    records: list[TrialRecord] = [read_record(folder) for folder in folders]
    if len(records) != 1 or not records[0].completed or records[0].times is None:
        print("the trial did not complete: " + "; ".join(str(r.failure) for r in records))
        return False
    record, series = records[0], read_series(folders[0])
    passed = len(series.loss) == NUM_STEPS
    print(
        f"trial: {len(series.loss)} steps, median {1000 * float(series.step_s.median()):.0f} ms a step of which "
        f"{1000 * float(series.loader_wait_s.median()):.0f} ms loader; mean loss of the first 20 steps "
        f"{series.loss[:20].mean():.4f}, of the last 20 {series.loss[-20:].mean():.4f}"
    )
    if record.metric is not None:
        print(f"validation: {record.metric.name} {record.metric.value:.4f} on {record.metric.num_rows:,} rows")
    return passed


if __name__ == "__main__":
    sys.exit(main())
