"""From an installed wheel, in an empty folder: `ablate init --workload mine.py && ablate run` ends with a PDF."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.records.store import read_records

ROOT = Path(__file__).parents[2]


def run(folder: Path, installed: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ablate", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed), "ABLATE_LOCKS": str(folder / "locks")},
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but what the wheel installs."""
    built, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(built), str(ROOT)], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), *map(str, built.glob("*.whl"))], check=True)
    return target


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_module_of_ones_own_reaches_the_pdf(tmp_path, installed):
    run(tmp_path, installed, "init", "--workload", "mine.py")
    run(tmp_path, installed, "run", "--blocks", "1")
    assert (tmp_path / "reports" / "my-study" / "report.pdf").read_bytes().startswith(b"%PDF")
    records = [record for _, record in read_records(tmp_path / "runs" / "my-study" / "records")]
    assert {record.identity.workload for record in records} == {"mine/mine"}
    assert all(record.completed for record in records)
