"""Three workloads, 40 cells, 8 blocks, 1000 steps each -> results, figures and PDF within 10 s and 1 GiB."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ablate.core.study import Study, Timing
from ablate.design.cells import make_design
from builders import make_factors, make_study, make_workloads
from simulated import make_records, write_study_folder

NAMES = ("hm/user-churn", "hm/item-sales", "hm/user-item-purchase")
MOST_S, MOST_GIB = 10.0, 1.0
PROGRAM = """
import resource, sys, time
started = time.perf_counter()
from pathlib import Path
from ablate.files.paths import StudyPaths
from ablate.cli.pipeline import write_report
write_report(StudyPaths(root=Path(sys.argv[1]), report=Path(sys.argv[2])))
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2)
"""


def forty_cells() -> Study:
    """Five optimizations said to act in eager too (two train the same): 32 compiled cells, 6 eager, two again."""
    factors = tuple(replace(f, info=replace(f.info, requires=())) for f in make_factors())
    return make_study(
        factors=factors, blocks=8, device="cuda", workloads=make_workloads(*NAMES),
        timing=Timing(epochs=5, steps_per_epoch=200, horizon_epochs=10),
    )  # fmt: skip


@pytest.mark.slow
def test_a_large_study_is_analyzed_in_ten_seconds_and_one_gib(tmp_path: Path) -> None:
    study = forty_cells()
    design = make_design(study)
    assert len(design.effective_keys) == 38 and len(design.trials) == 912
    records = make_records(study, design, effects={"compile": 0.1, "sync_free": 0.05}, noise=0.02)
    paths = write_study_folder(tmp_path, study, design, records)
    command = [sys.executable, "-c", PROGRAM, str(paths.root), str(paths.report)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250)
    wall_s, cpu_s, gib = map(float, done.stdout.split())
    print(f"{wall_s:.1f} s of wall time, {cpu_s:.1f} s of one core, {gib:.2f} GiB")
    assert paths.pdf.exists()
    assert gib <= MOST_GIB
    assert cpu_s <= MOST_S  # the wall time of a machine that does nothing else
