"""Compile-cache policies: what the record will say and what is in the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.paths import StudyPaths
from ablate.run.compile_cache import close_cache, open_cache
from run_parts import make_run


def planned(folder: Path, arm: str) -> tuple[PlannedTrial, StudyPaths]:
    _, design, paths = make_run(folder)
    return next(trial for trial in design.trials if trial.cell.name == arm and trial.block == 0), paths


def test_per_cell_is_cold_then_warm_only_after_completion(tmp_path: Path) -> None:
    trial, paths = planned(tmp_path, "naive")
    first = open_cache("per-cell", trial, paths)
    assert first.state == "cold"
    (first.folder / "leftover").write_text("x")
    close_cache(first, completed_key=None)
    second = open_cache("per-cell", trial, paths)
    assert second.state == "cold"
    assert list(second.folder.iterdir()) == []
    (second.folder / "kernel").write_text("x")
    close_cache(second, completed_key=trial.key)
    third = open_cache("per-cell", trial, paths)
    assert (third.state, third.folder) == ("warm", second.folder)
    assert (third.folder / "kernel").exists()


def test_another_cell_has_another_cache(tmp_path: Path) -> None:
    naive, paths = planned(tmp_path, "naive")
    full, _ = planned(tmp_path, "full")
    close_cache(open_cache("per-cell", naive, paths), completed_key=naive.key)
    assert open_cache("per-cell", full, paths).state == "cold"


def test_another_torch_makes_a_filled_cache_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, paths = planned(tmp_path, "naive")
    close_cache(open_cache("per-cell", trial, paths), completed_key=trial.key)
    monkeypatch.setattr("ablate.run.compile_cache.metadata.version", lambda name: "0.0")
    assert open_cache("per-cell", trial, paths).state == "cold"


def test_none_is_always_cold_and_removed(tmp_path: Path) -> None:
    trial, paths = planned(tmp_path, "naive")
    for _ in range(2):
        cache = open_cache("none", trial, paths)
        assert (cache.state, list(cache.folder.iterdir())) == ("cold", [])
        (cache.folder / "kernel").write_text("x")
        close_cache(cache, completed_key=trial.key)
        assert not cache.folder.exists()


def test_shared_is_one_folder_and_eager_has_none(tmp_path: Path) -> None:
    naive, paths = planned(tmp_path, "naive")
    full, _ = planned(tmp_path, "full")
    eager, _ = planned(tmp_path, "eager")
    assert open_cache("shared", naive, paths) == open_cache("shared", full, paths)
    assert open_cache("shared", naive, paths).state == "shared"
    assert {open_cache(policy, eager, paths).state for policy in ("per-cell", "shared", "none")} == {
        "not-compiled"
    }  # type: ignore[arg-type]
