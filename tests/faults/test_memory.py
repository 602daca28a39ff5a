"""A trial that runs out of memory, by a limit or by the kernel: recorded with that reason, the others go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.run.outcome import RunOutcome
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from fault_parts import TRAINER
from run_parts import make_run, read_statuses

LIMIT_BYTES = 96 * 1024**2
GROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def memory_group(tmp_path: Path) -> Iterator[Path]:
    """A memory group of 96 MiB, in whichever version of cgroups this kernel has."""
    parent = GROUPS / "memory" if (GROUPS / "memory").exists() else GROUPS
    group = parent / f"ablate-test-{tmp_path.name}"
    limit = "memory.limit_in_bytes" if parent.name == "memory" else "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT_BYTES))
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"limiting memory takes the rights of root and the memory controller ({error})")
    yield group
    group.rmdir()


def run_small(folder: Path) -> RunOutcome:
    study, design, paths = make_run(folder, blocks=1)
    return run_study(study, design, paths, SilentProgress(), command=TRAINER)


def test_a_limit_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"full": "limited"}))
    outcome = run_small(tmp_path)
    assert [(trial.status, trial.reason) for trial in outcome.failed] == [
        ("failed", "the process ended with exit code 1 and left no record: MemoryError")
    ]
    assert (outcome.exit_code, outcome.completed) == (2, 2)


def test_the_kernel_ends_it(tmp_path: Path, memory_group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel's own out-of-memory killer, which the runner sees as nothing but a SIGKILL."""
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "eaten"}))
    monkeypatch.setenv("FAKE_CGROUP", str(memory_group))
    outcome = run_small(tmp_path)
    assert [(trial.status, trial.reason) for trial in outcome.failed] == [
        ("killed", "the process was killed by SIGKILL; the system sends it when memory runs out")
    ]
    assert read_statuses(make_run(tmp_path)[2]) == {"eager/0": "completed", "naive/0": "killed", "full/0": "completed"}
    told = (memory_group / name for name in ("memory.oom_control", "memory.events"))
    lines = [line for path in told if path.exists() for line in path.read_text().splitlines()]
    assert "oom_kill 1" in lines, lines
