"""Compile-cache policies: what the record will say and what is in the folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.core.cell import PlannedTrial
from ablate.core.record import CacheState, Status
from ablate.files.paths import StudyPaths
from ablate.records.store import write_record
from ablate.run.compile_cache import STARTED_BY, close_cache, open_cache
from run_parts import make_record, make_run


def planned(folder: Path, arm: str, block: int = 0) -> tuple[PlannedTrial, StudyPaths]:
    _, design, paths = make_run(folder)
    return next(trial for trial in design.trials if trial.cell.name == arm and trial.block == block), paths


def end_trial(
    trial: PlannedTrial, paths: StudyPaths, state: CacheState, *, attempt: int = 1, status: Status = "completed"
) -> None:
    """Write the record of a trial, as its process does (an orphan's too)."""
    record = make_record(trial, status=status, attempt=attempt)
    write_record(paths.records / trial.slug, replace(record, cache_state=state))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != STARTED_BY)


def test_the_first_block_starts_cold_and_the_second_from_what_it_filled(tmp_path: Path) -> None:
    first, paths = planned(tmp_path, "naive")
    second, _ = planned(tmp_path, "naive", block=1)
    cold = open_cache("per-cell", first, 1, paths)
    assert (cold.state, names(cold.folder)) == ("cold", [])
    (cold.folder / "kernel").write_text("x")
    end_trial(first, paths, "cold")  # nobody closes the cache: the runner is gone, its orphan has written this
    warm = open_cache("per-cell", second, 1, paths)
    assert (warm.state, warm.folder, names(warm.folder)) == ("warm", cold.folder, ["kernel"])


def test_while_the_first_block_trains_the_second_is_cold_in_its_own_folder(tmp_path: Path) -> None:
    first, paths = planned(tmp_path, "naive")
    second, _ = planned(tmp_path, "naive", block=1)
    cold = open_cache("per-cell", first, 1, paths)
    (cold.folder / "kernel").write_text("x")
    other = open_cache("per-cell", second, 1, paths)
    assert (other.state, names(other.folder)) == ("cold", [])
    assert names(cold.folder) == ["kernel"]


def test_leftovers_of_a_failed_start_are_removed_and_never_warm(tmp_path: Path) -> None:
    first, paths = planned(tmp_path, "naive")
    second, _ = planned(tmp_path, "naive", block=1)
    cold = open_cache("per-cell", first, 1, paths)
    (cold.folder / "leftover").write_text("x")
    end_trial(first, paths, "cold", status="failed")
    assert open_cache("per-cell", second, 1, paths).state == "cold"
    close_cache(cold, completed=False)
    assert not cold.folder.exists()


def test_a_retry_of_the_first_block_is_cold_and_keeps_the_warm_folder(tmp_path: Path) -> None:
    first, paths = planned(tmp_path, "naive")
    second, _ = planned(tmp_path, "naive", block=1)
    close_cache(open_cache("per-cell", first, 1, paths), completed=False)
    filled = open_cache("per-cell", second, 1, paths)
    (filled.folder / "kernel").write_text("x")
    end_trial(second, paths, "cold")
    again = open_cache("per-cell", first, 2, paths)
    assert (again.state, names(again.folder)) == ("cold", [])
    assert names(filled.folder) == ["kernel"]


def test_a_folder_whose_trial_ended_warm_elsewhere_is_not_filled(tmp_path: Path) -> None:
    second, paths = planned(tmp_path, "naive", block=1)
    open_cache("per-cell", second, 1, paths)  # interrupted before it trained; later it started from another folder
    end_trial(second, paths, "warm")
    assert open_cache("per-cell", second, 2, paths).state == "cold"


def test_another_cell_has_another_cache(tmp_path: Path) -> None:
    naive, paths = planned(tmp_path, "naive")
    full, _ = planned(tmp_path, "full", block=1)
    open_cache("per-cell", naive, 1, paths)
    end_trial(naive, paths, "cold")
    assert open_cache("per-cell", full, 1, paths).state == "cold"


def test_another_torch_makes_a_filled_cache_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, paths = planned(tmp_path, "naive")
    second, _ = planned(tmp_path, "naive", block=1)
    open_cache("per-cell", first, 1, paths)
    end_trial(first, paths, "cold")
    assert open_cache("per-cell", second, 1, paths).state == "warm"
    monkeypatch.setattr("ablate.run.compile_cache.metadata.version", lambda name: "0.0")
    assert open_cache("per-cell", second, 1, paths).state == "cold"


def test_none_is_always_cold_and_removed(tmp_path: Path) -> None:
    trial, paths = planned(tmp_path, "naive")
    for _ in range(2):
        cache = open_cache("none", trial, 1, paths)
        assert (cache.state, list(cache.folder.iterdir())) == ("cold", [])
        (cache.folder / "kernel").write_text("x")
        close_cache(cache, completed=True)
        assert not cache.folder.exists()


def test_shared_is_one_folder_and_eager_has_none(tmp_path: Path) -> None:
    naive, paths = planned(tmp_path, "naive")
    full, _ = planned(tmp_path, "full")
    eager, _ = planned(tmp_path, "eager")
    assert open_cache("shared", naive, 1, paths) == open_cache("shared", full, 1, paths)
    assert open_cache("shared", naive, 1, paths).state == "shared"
    assert {open_cache(policy, eager, 1, paths).state for policy in ("per-cell", "shared", "none")} == {"not-compiled"}  # type: ignore[arg-type]


def test_what_another_machine_has_compiled_is_no_warm_start(tmp_path: Path) -> None:
    first, paths = planned(tmp_path, "naive")
    second, _ = planned(tmp_path, "naive", block=1)
    open_cache("per-cell", first, 1, paths, "gpu-1, H200")
    end_trial(first, paths, "cold")
    assert open_cache("per-cell", second, 1, paths, "gpu-2, L4").state == "cold"
    assert open_cache("per-cell", second, 2, paths, "gpu-1, H200").state == "warm"
