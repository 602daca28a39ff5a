"""Disks that are really small or really closed, and folders of its own for every test of a fault."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_parts import mount


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log.txt"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "none", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="session")
def shifted_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library for `LD_PRELOAD` that shifts the wall clock of a process, see `shifted_clock.c`."""
    library = tmp_path_factory.mktemp("clock") / "shifted_clock.so"
    source = Path(__file__).with_name("shifted_clock.c")
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
