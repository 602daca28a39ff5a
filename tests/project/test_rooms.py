"""Folders and files of the project -> rooms that a reader can take in, and documents that name files which exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = ("ablate", "tests", "benchmarks")
MOST_ENTRIES, MOST_LINES = 12, 300
ACROSS = ("project", "faults", "endtoend")  # tests of the whole
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def rooms() -> Iterator[tuple[Path, int]]:
    """Every folder and how many entries it has: code in benchmarks, all files elsewhere, a subfolder counting one."""
    for tree in TREES:
        for folder in (ROOT / tree, *(path for path in (ROOT / tree).rglob("*") if path.is_dir())):
            entries = [path for path in folder.iterdir() if path.name not in ("__init__.py", "__pycache__")]
            if tree == "benchmarks":
                entries = [path for path in entries if path.is_dir() or path.suffix == ".py"]
            yield folder.relative_to(ROOT), len(entries)


def test_no_room_is_too_full():
    found = {str(room): number for room, number in rooms() if number > MOST_ENTRIES}
    assert {room: number for room, number in found.items() if room not in ("ablate", "tests")} == {}


@pytest.mark.parametrize("tree", ["ablate", "benchmarks"])
def test_no_file_of_code_is_too_long(tree):
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / tree).rglob("*.py")}
    assert {str(path.relative_to(ROOT)): number for path, number in lines.items() if number > MOST_LINES} == {}


def test_tests_lie_where_their_subject_lies():
    folders = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*") if path.is_dir()]
    ours = [f for f in folders if f.parts[0] not in ACROSS and f.name != "__pycache__"]
    assert [str(folder) for folder in ours if not (ROOT / "ablate" / folder).is_dir()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document):
    named = re.findall(r"`((?:ablate|tests|benchmarks|studies|docs)/[\w./-]+)`", document.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
