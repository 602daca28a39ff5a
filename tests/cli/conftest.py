"""Every test of the command line works in its own folder, with the fake trainer in place of the real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ablate.cli import main
from run_parts import FAKE_COMMAND

SPEC = """\
study: small
question: Does it work?
workloads: [hm/user-churn]
data: {dataset: look-alike, scale: tiny}
optimizations: {dynamic_shapes: both, tensor_lr: both}
design: [eager, naive, full]
blocks: 2
timing: {epochs: 3, steps_per_epoch: 4}
compile_backend: eager
equivalence: off
device: cpu
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABLATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log.txt"))
    monkeypatch.setattr("ablate.run.runner.TRAIN_COMMAND", FAKE_COMMAND)
    monkeypatch.setattr("ablate.run.rerun.TRAIN_COMMAND", FAKE_COMMAND)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def no_tracking(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Leave MLflow out (it takes seconds to start); the folders it would have got are collected."""
    sent: list[Path] = []

    def make_tracking(*_: object) -> Callable[[Path], None]:
        return sent.append

    monkeypatch.setattr("ablate.cli.pipeline.make_tracking", make_tracking)
    monkeypatch.setattr("ablate.cli.pipeline.send_study", lambda paths, uri: None)
    return sent


@pytest.fixture
def ablate(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call `ablate` in this process; returns exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call
