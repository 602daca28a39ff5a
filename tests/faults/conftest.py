"""Disks that are really small or really closed, and folders of its own for every test of a fault."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log.txt"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", "size=2m", "none", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def close_disk(folder: Path) -> None:
    """Make a mounted file system read-only, as the kernel does with a disk that fails."""
    _mount("-o", "remount,ro", str(folder))


def open_disk(folder: Path) -> None:
    """Make it writable again."""
    _mount("-o", "remount,rw", str(folder))


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if "permission denied" in done.stderr.lower() or "must be superuser" in done.stderr:
        pytest.skip("mounting a disk takes the rights of root")
    assert done.returncode == 0, done.stderr
