"""Devices: what the caller may see, and who is waited for."""

from __future__ import annotations

import sys
import types

import pytest

from ablate.core.errors import UserError
from ablate.run.devices import detect_device, pick_device


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
