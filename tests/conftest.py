"""Every test has device locks of its own: none waits for a study that runs on this machine, or for another test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_LOCKS", str(tmp_path / "locks"))
