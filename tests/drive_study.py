"""`drive_study.py FOLDER [--blocks N] [--study NAME] [--parity WORD] [--retry-failed]`: run_study, trainer faked."""

import argparse
import sys
from pathlib import Path

from ablate.core.study import Equivalence
from ablate.run.options import RunOptions
from ablate.run.progress import PlainProgress
from ablate.run.runner import run_study
from run_parts import FAKE_COMMAND, make_run


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--study", default="test-study")
    parser.add_argument("--parity", default="off")
    parser.add_argument("--retry-failed", action="store_true")
    given = parser.parse_args()
    equivalence = Equivalence(parity=given.parity)
    study, design, paths = make_run(given.folder, blocks=given.blocks, name=given.study, equivalence=equivalence)
    options = RunOptions(retry_failed=given.retry_failed)
    outcome = run_study(study, design, paths, PlainProgress(sys.stderr), options, command=FAKE_COMMAND)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
