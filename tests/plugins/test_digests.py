"""Edited code is another digest: that of a plug-in too, which another distribution installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def digest(folder: Path) -> str:
    command = [sys.executable, "-c", "from ablate.plugins.digests import training_code; print(training_code())"]
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
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
