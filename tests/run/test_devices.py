"""Devices: what the caller may see, and who is waited for."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.files.locks import read_owner
from ablate.run.devices import detect_device, pick_device
from ablate.run.ledger.lock_owner import LockOwner, describe_wait


class FakeNvmlError(Exception):
    pass


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for pynvml on a machine with two GPUs."""
    nvml = types.SimpleNamespace(
        NVMLError=FakeNvmlError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: f"GPU-{index}",
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetUUID=lambda handle: handle,
        nvmlDeviceGetName=lambda handle: f"card {handle}",
        nvmlSystemGetDriverVersion=lambda: b"580.1",
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("visible", "uuid"), [(None, "GPU-0"), ("1", "GPU-1"), ("1,0", "GPU-1"), ("GPU-abc", "GPU-abc")]
)
def test_the_first_visible_gpu_is_taken_by_its_uuid(visible: str | None, uuid: str) -> None:
    device = detect_device({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert (device.kind, device.visible, device.index, device.lock_path.name) == ("cuda", uuid, 0, f"{uuid}.lock")


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("visible", ["", "-1"])
def test_hidden_gpus_leave_the_cpu(visible: str) -> None:
    device = detect_device({"CUDA_VISIBLE_DEVICES": visible})
    assert (device.kind, device.visible, device.index) == ("cpu", "", None)


def test_without_nvml_the_device_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert detect_device({}).kind == "cpu"
    with pytest.raises(UserError, match="no GPU is visible here"):
        pick_device("cuda", {})


def test_sentences_for_whoever_waits(tmp_path: Path) -> None:
    alive = LockOwner.here(study="other", root=tmp_path / "other").training("t", 5)
    orphan = LockOwner(study="mine", root=str(tmp_path), trial="a/b0/c", child=7, parent=2**22 + 1)
    assert describe_wait(LockOwner(), root=tmp_path, device="cpu") == "waiting for cpu: another ablate process uses it"
    assert describe_wait(alive, root=tmp_path, device="cpu") == (
        f"waiting for cpu: study other (pid {os.getpid()}) has it; taking turns"
    )
    assert describe_wait(orphan, root=tmp_path, device="cpu") == (
        "waiting for trial a/b0/c left by an earlier ablate run (pid 7)"
    )
    elsewhere = LockOwner(study="mine", root=str(tmp_path), trial="a/b0/c", parent=1, host="gpu-3", device="card")
    assert describe_wait(elsewhere, root=tmp_path) == (
        "no trial is free; other workers are still running some of these (pid 1 on gpu-3 (card))"
    )


def test_what_stands_in_a_lock_is_read_back_and_anything_else_is_unknown(tmp_path: Path) -> None:
    owner = LockOwner.here(study="mine", root=tmp_path, device="card").training("a/b0/c", 7, timeout_s=60, request="r")
    assert LockOwner.parse(json.loads(json.dumps(owner.to_json()))) == owner
    assert set(LockOwner.here(study="mine", root=tmp_path).to_json()) == {"study", "root", "parent", "host"}
    planted = {"study": ["x"], "parent": "1", "child": True, "deadline": 5, "host": None, "more": 1, "trial": "t"}
    assert LockOwner.parse(planted) == LockOwner(trial="t")
    (tmp_path / "broken.lock").write_text("[1, 2")
    assert LockOwner.parse(read_owner(tmp_path / "broken.lock")) == LockOwner()
