"""The same records -> the same tables, figures and PDF, byte for byte, wherever and whenever they are made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.core.study import Claim
from ablate.design.cells import make_design
from builders import make_factors, make_study, make_workloads
from simulated import make_records, write_study_folder

ROOT = Path(__file__).resolve().parents[2]
DAYS_S = 86_400


def make_reports(folder: Path, **environment: str) -> dict[str, bytes]:
    """Call `ablate report` on the study below `folder`; returns every file of the report by its name."""
    study = folder / "runs" / "test-study"
    subprocess.run(
        [sys.executable, "-m", "ablate", "report", str(study), "--reports", "reports"],
        cwd=folder, check=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    report = folder / "reports" / "test-study"
    return {str(path.relative_to(report)): path.read_bytes() for path in report.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def study_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two workloads, five blocks, one failed trial; the whole report has every kind of table and figure."""
    study = make_study(
        blocks=5,
        workloads=make_workloads("hm/user-churn", "hm/item-sales"),
        factors=make_factors(["tensor_lr", "sync_free"]),
        claim=Claim(speedup=(1.30, 1.35), alternative=(1.43, 1.54), source="a guide"),
    )
    design = make_design(study)
    folder = tmp_path_factory.mktemp("first")
    write_study_folder(folder, study, design, make_records(study, design, effects={"compile": 0.1}, noise=0.01))
    return folder


def assert_same(first: dict[str, bytes], second: dict[str, bytes]) -> None:
    assert first.keys() == second.keys()
    assert [name for name in sorted(first) if first[name] != second[name]] == []


@pytest.fixture(scope="module")
def first(study_folder: Path) -> dict[str, bytes]:
    files = make_reports(study_folder, TZ="UTC", LC_ALL="C.UTF-8", PYTHONHASHSEED="1")
    assert {"report.pdf", "results.json", "figures/figures.json"} <= files.keys()
    assert sum(name.endswith(".svg") for name in files) >= 6 and sum(name.endswith(".csv") for name in files) >= 4
    return files


@pytest.mark.slow
def test_again_in_the_same_folder(study_folder: Path, first: dict[str, bytes]) -> None:
    assert_same(first, make_reports(study_folder, PYTHONHASHSEED="2"))


def test_another_folder_day_zone_language_and_order_of_hashes(
    study_folder: Path, first: dict[str, bytes], tmp_path: Path, shifted_clock: Path
) -> None:
    elsewhere = tmp_path / "ein anderer Ordner" / "tief"
    shutil.copytree(study_folder / "runs", elsewhere / "runs")
    for path in sorted(elsewhere.rglob("*"), reverse=True):  # other dates of files, another order in folders
        os.utime(path, (1_000_000_000, 1_000_000_000))
    second = make_reports(
        elsewhere, TZ="Pacific/Apia", LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8", LANGUAGE="de", PYTHONHASHSEED="77",
        SOURCE_DATE_EPOCH="1", HOME=str(tmp_path), USER="somebody", LD_PRELOAD=str(shifted_clock),
        CLOCK_SHIFT_S=str(400 * DAYS_S + 12_345), MPLCONFIGDIR=str(tmp_path / "mpl"), COLUMNS="40",
    )  # fmt: skip
    assert_same(first, second)
    assert not any(str(study_folder).encode() in content for content in first.values())
