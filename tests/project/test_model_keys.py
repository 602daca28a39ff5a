"""An optimization with a key of its own in the recipe of models -> two places know it: its file, and the workload."""

from __future__ import annotations

import re
from pathlib import Path

ABLATE = Path(__file__).resolve().parents[2] / "ablate"
WORDS = re.compile(r"encode_unique|distinct-rows|encoded_rows|\bmodel\b.*\"rows\"")  # name, support, counter, key


def test_encode_unique_is_known_to_its_own_file_and_to_the_workload_that_supports_it():
    found = {
        path.relative_to(ABLATE).as_posix()
        for path in ABLATE.rglob("*.py")
        if WORDS.search(path.read_text(encoding="utf-8"))
    }
    own, workload = "optimizations/beyond/encode_unique.py", "workloads/relational/"
    assert own in found and any(path.startswith(workload) for path in found)
    assert [path for path in found if path != own and not path.startswith(workload)] == []
