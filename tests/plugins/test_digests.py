"""Edited code is another digest: that of a plug-in too, which another distribution installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ablate


def digest(folder: Path) -> str:
    command = [sys.executable, "-c", "from ablate.plugins.digests import training_code; print(training_code())"]
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=folder, capture_output=True, text=True,
                          check=True).stdout  # fmt: skip


def test_an_installed_plug_in_is_part_of_the_code(tmp_path: Path) -> None:
    without = digest(tmp_path)
    (tmp_path / "plugged.py").write_text("INFO = None\n")
    facts = tmp_path / "plugged-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[ablate.optimizations]\nplugged = plugged\n")
    found = [without, digest(tmp_path)]
    (tmp_path / "plugged.py").write_text("INFO = 0\n")
    found.append(digest(tmp_path))
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.1\n")
    found.append(digest(tmp_path))
    assert len(set(found)) == 4 and digest(tmp_path) == found[-1]


@pytest.mark.parametrize(
    ("room", "is_other"),
    [
        ("run/plan", True),  # composes the recipe
        ("run/process", True),  # makes the environment of the trial's process
        ("design", True),  # gives a trial its seed
        ("train", True),
        ("a_new_room", True),
        ("report", False),
        ("cli", False),
    ],
)
def test_code_that_decides_how_a_trial_trains_counts(room: str, is_other: bool, tmp_path: Path) -> None:
    package = tmp_path / "ablate"
    shutil.copytree(Path(ablate.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = digest(tmp_path)
    (package / room).mkdir(exist_ok=True)
    for path in [*(package / room).glob("*.py"), package / room / "edited.py"]:
        path.open("a").write("# edited\n")
    assert (digest(tmp_path) != before) is is_other
