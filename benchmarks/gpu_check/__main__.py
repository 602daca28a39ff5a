"""One GPU and seven minutes -> a record after each trial, then evidence and both times of every trial that fitted.

    python -m benchmarks.gpu_check --out FOLDER      needs a CUDA device; exits 1 when eager, full or naive is missing

Trials in order of worth: eager, full, naive, then `full` without each optimization, until the deadline; a trial that
does not fit into the rest is ended and not counted. Each one is appended to `records.jsonl` before the next one starts,
so a machine that is taken away loses one trial at most.

Written for a bare machine with its own Python 3.12, torch and PyG: it needs no installation of ablate, no Optuna, no
MLflow and no network. What such an image lacks travels as wheels (tried here: the resolver, not the machine):

    python3 -m pip download --no-deps --only-binary=:all: --python-version 3.12 -d .whl \\
        pytorch-frame==0.3.0 relbench==3.0.2 structured-data-models-relational-engine==1.0.* ...

and whatever `pip show` there does not find of their own needs; then, on the machine, `pip install --no-index --no-deps
--target .site .whl/*.whl` and `PYTHONPATH=.site`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ablate.core.cell import PlannedTrial
from ablate.core.optimization import OffMeans
from ablate.core.record import TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.serialize import from_dict, to_dict
from ablate.core.study import Equivalence, ExplicitCell, Factor, LoaderOptions, Study, Timing, Training, WorkloadChoice
from ablate.core.units import format_duration
from ablate.design.cells import make_design
from ablate.design.recipes import compose_recipes, find_appliers
from ablate.plugins.registry import make_catalog
from ablate.records.store import read_record, write_json
from ablate.run.process.launch import child_environment

GUIDE = ("dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free")
ARMS = ("eager", "full", "naive", *(f"without-{name}" for name in GUIDE))
DEADLINE_S = 420.0
LEAST_S = 20.0
COUNTERS = (
    "compiles.forward",
    "compiles.optimizer_step",
    "graph_breaks",
    "limit_hits",
    "cudagraph_recordings",
    "cudagraph_skips",
    "syncs_per_step",
)


def main() -> int:
    """Train until the deadline and print what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "gpu-check")), help="folder of results")
    parser.add_argument("--minutes", type=float, default=DEADLINE_S / 60, help="deadline for the last trial to end")
    parser.add_argument("--workload", default="hm/user-churn")
    parser.add_argument("--off-means", choices=("today", "guide"), default="today")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu only to try the script")
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    arguments.out.mkdir(parents=True, exist_ok=True)
    study = make_study(arguments.workload, arguments.off_means, arguments.device, arguments.scale)
    with tempfile.TemporaryDirectory() as scratch:
        records = list(train_until(study, deadline, Path(scratch), arguments.out / "records.jsonl"))
    report = describe(records)
    print(report)
    (arguments.out / "gpu-check.txt").write_text(report + "\n", encoding="utf-8")
    done = {arm for record in records if record.completed for arm in record.identity.arms}
    return 0 if {"eager", "full", "naive"} <= done else 1


def make_study(workload: str, off_means: OffMeans, device: str, scale: str) -> Study:
    """The study behind the check: full size on a GPU, as small as can be on a CPU."""
    catalog = make_catalog()
    infos = [catalog.optimizations[name] for name in GUIDE]
    factors = tuple(Factor(info=i, off_means=off_means, off=i.off_level(off_means), on=i.on) for i in infos)
    on_gpu = device == "cuda"
    small = {"channels": 8, "num_neighbors": [4, 2], "encoder_layers": 1}
    sizes = {"validation_rows": 5000} if on_gpu else {**small, "validation_rows": 100}
    info = catalog.workloads[workload]
    options = to_dict(from_dict(info.options, {"dataset": "look-alike", "scale": scale, **sizes}))
    training = Training(batch_size=512 if on_gpu else 16, lr=0.005)
    return Study(
        name="gpu-check", question="What does a GPU add to the evidence?", claim=None,
        workloads=(WorkloadChoice(info=info, options=options),), factors=factors, compile_step=True,
        compile_backend="inductor" if on_gpu else "eager", design="cells",
        cells=tuple(ExplicitCell(arm=arm) for arm in ARMS), blocks=1, seed=0,
        timing=Timing(epochs=4, steps_per_epoch=40 if on_gpu else 4, horizon_epochs=10), training=training,
        loader=LoaderOptions(num_workers=4, pin_memory=True) if on_gpu else LoaderOptions(), compile_cache="none",
        equivalence=Equivalence(), device="cuda" if on_gpu else "cpu", num_threads=None, trial_timeout_s=DEADLINE_S,
        tracking_uri=None, profile=None, spec_path="", spec_text="",
    )  # fmt: skip


def train_until(study: Study, deadline: float, scratch: Path, log: Path) -> Iterable[TrialRecord]:
    """Train the arms in order; yield each record after it was appended to the log."""
    write_json(scratch / "study.json", study)
    prepared = time.monotonic()
    run_child(["prepare", str(scratch / "study.json")], scratch, {}, deadline - time.monotonic())
    print(f"data ready after {time.monotonic() - prepared:.0f} s", flush=True)
    design = make_design(study)
    recipes = compose_recipes(study, design, find_appliers(study))
    for trial in in_order(design.trials):
        left = deadline - time.monotonic()
        if left < LEAST_S:
            print(f"deadline: {trial.cell.name} and what follows were not started", flush=True)
            return
        folder = scratch / trial.slug
        recipe = recipes[trial.cell.cell.key]
        request = TrialRequest(
            study_json=str(scratch / "study.json"), trial=trial, recipe=recipe, attempt=1, record_folder=str(folder),
            cache_state="not-compiled" if recipe.execution == "eager" else "cold",
            device_index=0 if study.device == "cuda" else None,
        )  # fmt: skip
        write_json(folder / "request.json", request)
        began = time.monotonic()
        run_child(["trial", str(folder / "request.json")], folder, recipe.environment, left)
        if not (folder / "record.json").exists():
            why = "the deadline came" if time.monotonic() >= deadline else last_line(folder / "output.txt")
            print(f"{trial.cell.name}: no record after {time.monotonic() - began:.0f} s; {why}", flush=True)
            continue
        record = read_record(folder)
        with log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(to_dict(record)) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        print(f"{trial.cell.name}: {record.status} in {time.monotonic() - began:.0f} s", flush=True)
        yield record


def in_order(trials: Sequence[PlannedTrial]) -> list[PlannedTrial]:
    """Sort the trials by the worth of their first arm."""
    return sorted(trials, key=lambda trial: min(ARMS.index(arm) for arm in trial.cell.arms if arm in ARMS))


def run_child(arguments: Sequence[str], folder: Path, variables: Mapping[str, str], timeout_s: float) -> None:
    """Run the trainer in the environment of a trial; one that outlasts the time is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = child_environment(
        os.environ, compile_cache=folder / "cache", recipe_environment=variables,
        num_threads=None, visible_gpu=os.environ.get("CUDA_VISIBLE_DEVICES", "0"),
    )  # fmt: skip
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ablate.train", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
        )
        try:
            process.wait(max(timeout_s, 1.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_line(path: Path) -> str:
    """The last thing a process said."""
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def describe(records: Sequence[TrialRecord]) -> str:
    """Device, evidence and both times of every trial, then what still waits for the device, by source line."""
    if not records:
        return "no trial ended"
    facts = records[0].environment
    versions = f"torch {facts.packages.get('torch')}, Python {facts.python}"
    lines = [f"{facts.device_name}, {versions}, {records[0].identity.workload}", ""]
    lines.append(
        f"{'arm':<26}{'status':<12}{'steady':<12}{'horizon':<12}{'memory':<10}"
        + "".join(f"{name:<24}" for name in COUNTERS)
    )
    for record in records:
        times, memory = record.times, record.peak_device_memory_gib
        steady = times.steady_s if times else None
        horizon = times.horizon_s if times else None
        lines.append(
            f"{record.identity.arms[0]:<26}{record.status:<12}{_seconds(steady):<12}{_seconds(horizon):<12}"
            f"{'-' if memory is None else f'{memory:.2f} GiB':<10}"
            + "".join(f"{record.evidence.counters.get(name, float('nan')):<24.0f}" for name in COUNTERS)
        )
        if record.failure:
            lines.append(f"  {record.failure.reason}")
    for record in records:
        lines += ["", f"{record.identity.arms[0]}: waits of one step by line"]
        lines += [f"  {number} x {line}" for line, number in record.evidence.sync_sources.items()] or ["  none"]
        stages = ", ".join(f"{name} {1000 * s:.2f} ms" for name, s in record.evidence.stages.items())
        lines.append(f"  stages of a profiled step: {stages or 'none'}")
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_duration(value)


if __name__ == "__main__":
    sys.exit(main())
