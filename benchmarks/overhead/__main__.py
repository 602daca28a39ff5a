"""Pairs of processes, a trial and a bare loop of the same cell -> ratio of steady step times; fixed cost by stage.

    python -m benchmarks.overhead              10 pairs, some fifteen minutes on a quiet core; exits 1 when a line fails
    python -m benchmarks.overhead --pairs 2    fewer pairs, to see that it works
    python -m benchmarks.overhead --compiled   pairs of the fully compiled cell too (slow)
    python -m benchmarks.overhead --profile    only: which packages the imports of a trial spend their time in

The order inside a pair alternates, both processes have the same environment and see the same batches, and the losses of
an eager pair must be equal in every step: it is the same training. The interval is the block-t of `ablate.analysis`,
the pair being the block.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np

from ablate.analysis.statistics.inference import half_width
from ablate.core.serialize import from_dict
from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.design.recipes import compose_recipes
from ablate.plugins.registry import make_catalog
from ablate.run.devices import pick_device
from ablate.run.process.child import OUTPUT_NAME, TRAIN_COMMAND
from ablate.spec.reader import read_study
from ablate.workloads.relational.options import RelationalOptions, prepare
from benchmarks.overhead.processes import STAGES, Place, Training, time_until_trial, train_bare, train_trial

SPEC = Path(__file__).parent / "overhead.yaml"
MOST_RATIO, MOST_FIXED_S = 1.03, 6.0
SHOWN_PACKAGES = 12


def main() -> int:
    """Print the lines; 0 when every one passes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="pairs of processes per cell")
    parser.add_argument("--compiled", action="store_true", help="the fully compiled cell too")
    parser.add_argument("--profile", action="store_true", help="print where the imports of a trial spend their time")
    arguments = parser.parse_args()
    study = read_study(SPEC, catalog=make_catalog(), device="cpu")
    options = from_dict(RelationalOptions, study.workloads[0].options)
    prepare(options, lambda sentence: print(sentence, file=sys.stderr, flush=True))  # caches are warm from here
    with (
        tempfile.TemporaryDirectory() as scratch,
        pick_device("cpu").lock(lambda owner: print(f"waiting for the device: {owner}", file=sys.stderr, flush=True)),
    ):
        if arguments.profile:
            print_import_profile(make_place(study, "eager", Path(scratch)))
            return 0
        trials, passed = compare(study, "eager", Path(scratch), arguments.pairs)
        passed = print_fixed_cost(trials) and passed
        if arguments.compiled:
            passed = compare(study, "full", Path(scratch), arguments.pairs)[1] and passed
    with tempfile.TemporaryDirectory() as scratch:
        print_time_until_step(Path(scratch), median(fixed_s(t) for t in trials))
    print(
        f"\n{datetime.now(UTC):%Y-%m-%d}, {platform.processor() or platform.machine()}, {study.num_threads} thread, "
        f"torch {version('torch')}, look-alike {options.scale}"
    )
    return 0 if passed else 1


def make_place(study: Study, arm: str, scratch: Path) -> Place:
    """The folder and recipe of an arm's cell."""
    design = make_design(study)
    trial = next(trial for trial in design.trials if arm in trial.cell.arms)
    folder = scratch / arm
    folder.mkdir()
    return Place(folder=folder, study=study, trial=trial, recipe=compose_recipes(study, design)[trial.cell.cell.key])


def compare(study: Study, arm: str, scratch: Path, pairs: int) -> tuple[list[Training], bool]:
    """Train pairs and print their ratio; returns the trials and whether the line passes."""
    place = make_place(study, arm, scratch)
    if arm != "eager":
        train_trial(place)  # fills the compile cache
    trials, bares = [], []
    for index in range(pairs):
        for which in ("trial", "bare") if index % 2 == 0 else ("bare", "trial"):
            (trials if which == "trial" else bares).append((train_trial if which == "trial" else train_bare)(place))
        print(
            f"{arm} pair {index + 1}/{pairs}: epoch {trials[-1].steady_s:.3f} s, bare {bares[-1].steady_s:.3f} s",
            file=sys.stderr,
            flush=True,
        )
    logs = np.log([trial.steady_s / bare.steady_s for trial, bare in zip(trials, bares, strict=True)])
    half = half_width(logs)
    ratio, center = math.exp(median(logs)), float(logs.mean())
    interval = (
        ""
        if half is None
        else f", mean {math.exp(center):.4f} [{math.exp(center - half):.4f}, {math.exp(center + half):.4f}]"
    )
    passed = ratio <= MOST_RATIO
    step_ms = 1000 * median(bare.steady_s for bare in bares) / study.timing.steps_per_epoch
    print(
        f"{arm}: steady step {step_ms:.0f} ms bare; trial / bare: median {ratio:.4f}{interval} ({pairs} pairs, "
        f"at most {MOST_RATIO}): {_verdict(passed)}"
    )
    if arm == "eager":
        same = all(trial.losses == bare.losses for trial, bare in zip(trials, bares, strict=True))
        print(f"{arm}: losses of trial and bare loop equal in every step: {_verdict(same)}")
        passed = passed and same
    return trials, passed


def fixed_s(trial: Training) -> float:
    """Seconds from the start of the process to the beginning of the first step."""
    return sum(trial.stage_s.values())


def print_fixed_cost(trials: Sequence[Training]) -> bool:
    """Print the fixed cost of a trial by stage; whether it is within the limit."""
    cost = median(fixed_s(trial) for trial in trials)
    stages = ", ".join(f"{stage} {median(trial.stage_s[stage] for trial in trials):.2f} s" for stage in STAGES)
    passed = cost <= MOST_FIXED_S
    print(
        f"fixed cost of an eager trial, warm caches: median {cost:.2f} s until the first step begins (at most "
        f"{MOST_FIXED_S:g}): {_verdict(passed)}\n  {stages}"
    )
    firsts = [trial.first_step_s for trial in trials if trial.first_step_s is not None]
    ends = [trial.end_s for trial in trials if trial.end_s is not None]
    print(f"  first step {median(firsts):.2f} s; end of the process after its record {median(ends):.2f} s")
    return passed


def print_time_until_step(scratch: Path, cost_s: float) -> None:
    """Print what passes between `ablate run` and the first step, the first time and with the stores there."""
    first, again = (time_until_trial(SPEC, scratch) for _ in range(2))
    print(
        f"from `ablate run` to the first step: {again:.1f} s until the trial's process starts + {cost_s:.1f} s "
        f"(in a new folder, with its MLflow store to make: {first:.1f} s + {cost_s:.1f} s)"
    )


def print_import_profile(place: Place) -> None:
    """Print the packages whose own modules take longest to import in a trial, by `-X importtime`."""
    train_trial(place, (TRAIN_COMMAND[0], "-X", "importtime", *TRAIN_COMMAND[1:]))
    lines = (place.folder / "record" / OUTPUT_NAME).read_text(encoding="utf-8").splitlines()
    own_us: Counter[str] = Counter()
    for line in lines:
        parts = line.removeprefix("import time:").split("|")
        if line.startswith("import time:") and len(parts) == 3 and parts[0].strip().isdigit():
            own_us[parts[2].strip().split(".")[0]] += int(parts[0])
    print(f"imports of a trial: {sum(own_us.values()) / 1e6:.2f} s under -X importtime (which slows them down)")
    for package, microseconds in own_us.most_common(SHOWN_PACKAGES):
        print(f"  {microseconds / 1e6:>6.2f} s  {package}")


def _verdict(passed: bool) -> str:
    return "as it must be" if passed else "NOT as it must be"


if __name__ == "__main__":
    sys.exit(main())
