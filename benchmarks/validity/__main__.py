"""`python -m benchmarks.validity [--quick]` -> the acceptance table; exit code 1 when a number is missed.

The full form (10,000 simulated studies per setting) takes a few minutes on two CPU cores, `--quick` less than one. The
last full output is `benchmarks/validity/full.txt`.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import date

import numpy as np
import scipy

from benchmarks.validity import checks, constants, controls
from benchmarks.validity.checks import Check
from benchmarks.validity.independent import largest_differences
from benchmarks.validity.measure import measure, measure_sequential

SEQUENTIAL_SETTINGS = ("normal", "unequal", "slopes")
CONTROLS = {
    "pooled epochs": controls.pooled_epochs,
    "bootstrap of 5 blocks": controls.bootstrap,
    "fixed order under drift": controls.fixed_order,
    "copied rows": controls.copied_rows,
}


def main() -> int:
    """Measure, print the table, and say whether every number holds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 studies per setting and wider bands, in CI")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    started = time.perf_counter()
    found = run_checks(options.quick, options.processes)
    print(f"benchmarks/validity, {'quick' if options.quick else 'full'} form, {date.today().isoformat()}")
    print(
        f"{_num_studies(options.quick):,} simulated studies per setting, seed {constants.SEED}, {platform.machine()} "
        f"with {os.cpu_count()} CPU cores, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, {time.perf_counter() - started:.0f} s\n"
    )
    print_table(found)
    missed = sum(check.holds is False for check in found)
    asked = sum(check.holds is not None for check in found)
    print(f"\n{asked - missed} of {asked} numbers hold" + (f", {missed} MISSED" if missed else ""))
    return 1 if missed else 0


def run_checks(is_quick: bool, processes: int) -> list[Check]:
    """Every check, in the order of the specification."""
    num = _num_studies(is_quick)
    blocks = constants.QUICK_BLOCKS if is_quick else constants.BLOCKS
    with ProcessPoolExecutor(processes) as pool:
        exact = pool.submit(largest_differences)
        rates = [pool.submit(measure, s, b, num) for s in constants.SETTINGS for b in blocks]
        stopped = {s: pool.submit(measure_sequential, s, num) for s in SEQUENTIAL_SETTINGS}
        alone = pool.submit(measure_sequential, "normal", num, is_alone=True)
        failing = {name: pool.submit(control, num) for name, control in CONTROLS.items()}
        right = pool.submit(controls.copied_rows, num, is_copied=False)
        measured = [job.result() for job in rates]
        found = [
            *checks.exact_checks(measured, exact.result()),
            *checks.coverage_checks(measured),
            *checks.joint_checks(measured),
            *checks.power_checks(measured),
        ]
        stopped["one optimization"] = alone
        for setting, job in stopped.items():
            found += checks.sequential_checks(setting, job.result(), num)
        found += checks.control_checks({k: job.result() for k, job in failing.items()}, right.result())
    return found


def print_table(found: Iterable[Check]) -> None:
    """One line per check, columns as wide as their longest entry."""
    rows = [("item", "what", "setting", "measured", "wanted", "")]
    rows += [
        (c.item, c.what, c.setting, c.measured, c.wanted, {True: "ok", False: "MISSED", None: ""}[c.holds])
        for c in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _num_studies(is_quick: bool) -> int:
    return constants.QUICK_STUDIES if is_quick else constants.NUM_STUDIES


if __name__ == "__main__":
    sys.exit(main())
