"""A disk that is full or closed: one sentence, what to do, and every finished trial is still there afterwards."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.core.errors import DiskError
from ablate.core.request import EXIT_DISK
from ablate.files.disk import explain_disk_errors, find_disk_error
from ablate.records.store import write_json
from ablate.train.observe.environment import explain_failure
from fault_parts import call_ablate, close_disk, fill, open_disk, write_spec
from run_parts import read_log

PAGE = 4096
FULL = ": No space left on device; free some space and run again, every finished trial is kept"


def finished(disk: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in disk.glob("runs/*/records/*/record.json")}


def slow(*pages: int) -> list[object]:
    return [pytest.param(number, marks=pytest.mark.slow) for number in pages]


@pytest.mark.parametrize("pages", [8, *slow(0, 2, 4, 6, 10, 12, 14, 16, 18)])
def test_full_while_the_study_is_planned_or_trains(small_disk: Path, tmp_path: Path, pages: int) -> None:
    """Without a plan, in the ledger, before the first record, between records: wherever so many pages end."""
    run = ("run", write_spec(tmp_path), "--no-report", "--runs", small_disk / "runs")
    filler = fill(small_disk, pages * PAGE)
    full = call_ablate(tmp_path, *run)
    assert (full.returncode, full.stderr.rstrip().endswith(FULL)) == (1, True), full.stderr
    assert "Traceback" not in full.stderr
    before = finished(small_disk)
    filler.unlink()
    again = call_ablate(tmp_path, *run)
    assert again.returncode == 0, again.stderr
    after = finished(small_disk)
    assert len(after) == 3 and before.items() <= after.items()
    assert {json.loads(content)["status"] for content in after.values()} == {"completed"}
    assert len(read_log(tmp_path, "start")) <= 4  # the three, and the one that the full disk cut short


def test_closed_then_open_again(small_disk: Path, tmp_path: Path) -> None:
    folders = ("--runs", small_disk / "runs", "--reports", small_disk / "reports")
    spec = write_spec(tmp_path)
    assert call_ablate(tmp_path, "run", spec, "--no-report", *folders).returncode == 0
    before = finished(small_disk)
    close_disk(small_disk)
    advice = "Read-only file system; choose a folder on a writable file system"
    more = call_ablate(tmp_path, "run", spec, "--no-report", "--blocks", 2, *folders)
    assert more.returncode == 1
    assert f"{advice} with --runs and run again, every finished trial is kept" in more.stderr
    analyzed = call_ablate(tmp_path, "analyze", spec, *folders)
    assert (analyzed.returncode, len(analyzed.stderr.splitlines())) == (1, 1)
    assert analyzed.stderr.startswith("cannot write ") and advice in analyzed.stderr
    told = call_ablate(tmp_path, "status", spec, "--runs", small_disk / "runs")
    assert (told.returncode, "3 completed" in told.stdout) == (0, True), told.stderr
    open_disk(small_disk)
    assert call_ablate(tmp_path, "run", spec, "--no-report", "--blocks", 2, *folders).returncode == 0
    assert before.items() <= finished(small_disk).items() and len(finished(small_disk)) == 6


def test_full_while_the_report_is_written(small_disk: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    assert call_ablate(tmp_path, "run", spec, "--no-report").returncode == 0
    filler = fill(small_disk, 3 * PAGE)
    folders = ("--reports", small_disk / "reports")
    full = call_ablate(tmp_path, "analyze", spec, *folders)
    assert (full.returncode, full.stderr.endswith(FULL + "\n"), "Traceback" in full.stderr) == (1, True, False)
    filler.unlink()
    assert call_ablate(tmp_path, "analyze", spec, *folders).returncode == 0


@pytest.mark.slow
def test_full_while_a_real_trial_writes_its_series(small_disk: Path, tmp_path: Path) -> None:
    """The trial's own process meets the full disk: no record of a failure that was not the trial's."""
    from ablate.core.recipe import Recipe
    from ablate.core.request import TrialRequest
    from ablate.design.cells import make_design
    from real_parts import tiny_graph, tiny_study

    tiny_graph()
    study = tiny_study()
    trial = next(t for t in make_design(study).trials if t.cell.cell.execution == "eager")
    folder = small_disk / "record"
    request = TrialRequest(
        study_json=str(tmp_path / "study.json"),
        trial=trial,
        recipe=Recipe(),
        attempt=1,
        record_folder=str(folder),
        cache_state="not-compiled",
    )
    write_json(tmp_path / "study.json", study)
    write_json(tmp_path / "request.json", request)
    folder.mkdir()
    command = [sys.executable, "-m", "ablate.train", "trial", str(tmp_path / "request.json")]
    filler = fill(small_disk, 0)
    full = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (full.returncode, full.stderr.rstrip().endswith(FULL)) == (EXIT_DISK, True), full.stderr
    assert not (folder / "record.json").exists()
    filler.unlink()
    assert subprocess.run(command, check=False).returncode == 0
    assert json.loads((folder / "record.json").read_text())["status"] == "completed"


def test_full_while_a_graph_or_a_checkpoint_is_saved(small_disk: Path) -> None:
    """torch wraps what its stream met; the sentence is the same, and no half file is left."""
    import torch

    from ablate.train.parity.checkpoint import Checkpoint, write_checkpoint

    fill(small_disk, 4 * PAGE)
    checkpoint = Checkpoint(step=0, weights={"w": torch.zeros(100_000)}, state={})
    expected = r"cannot write .*No space left on device; free some space"
    with pytest.raises(DiskError, match=expected), explain_disk_errors():
        write_checkpoint(small_disk, checkpoint)
    assert not list(small_disk.glob("checkpoints/*"))


def test_a_disk_error_is_found_behind_what_libraries_make_of_it() -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device", "/cache/kernel.cpp")
        except OSError as error:
            raise RuntimeError("backend='inductor' raised") from error
    except RuntimeError as error:
        found = find_disk_error(error)
    assert found is not None and found.filename == "/cache/kernel.cpp"
    said = find_disk_error(RuntimeError("g++: fatal error: cannot write: No space left on device"))
    assert said is not None and said.errno == errno.ENOSPC
    assert find_disk_error(PermissionError(errno.EACCES, "Permission denied", "/a/b")) is None


def test_lack_of_memory_is_named_whoever_noticed_it() -> None:
    import torch

    with pytest.raises(RuntimeError) as told:
        torch.empty(2**60)
    assert explain_failure(told.value).startswith("out of memory (RuntimeError: ")
    assert "2305843009213693952" in explain_failure(told.value) or "4611686018427387904" in explain_failure(told.value)
    assert explain_failure(MemoryError()) == "out of memory (MemoryError)"
    assert explain_failure(ValueError("a\nb")) == "ValueError: a"
