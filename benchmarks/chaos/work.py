"""`python -m benchmarks.chaos.work SPEC RUNS BLOCKS [--runner]`: one worker of the study, with the benchmark's trainer.

What `ablate worker` and, with `--runner`, `ablate run --retry-failed` do before the report: the process that is killed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ablate.cli.loading import load_study
from ablate.run.options import RunOptions
from ablate.run.progress import PlainProgress
from ablate.run.runner import run_study

TRAINER = (sys.executable, "-m", "benchmarks.chaos.trainer")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("blocks", type=int)
    parser.add_argument("--runner", action="store_true")
    given = parser.parse_args()
    options = RunOptions(device="cpu", retry_failed=given.runner)
    loaded = load_study(given.spec, options, runs=given.runs, reports=given.runs, blocks=given.blocks)
    outcome = run_study(loaded.study, loaded.design, loaded.paths, PlainProgress(sys.stderr), options, command=TRAINER)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
