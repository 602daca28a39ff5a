"""The machine -> the device a study trains on, found without torch, and the lock file of that device."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ablate.core.errors import UserError
from ablate.core.paths import lock_folder
from ablate.run.locks import FileLock, make_shared_folder, wait_for


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device.

    Attributes:
        kind: `cpu` or `cuda`.
        name: What a person calls it, e.g. `NVIDIA L4`.
        lock_name: Identity of the device on this host.
        visible: Value of `CUDA_VISIBLE_DEVICES` for the child: the claimed GPU, or empty to hide all.
        index: Index of the device as the child sees it; None on a CPU.
    """

    kind: Literal["cpu", "cuda"]
    name: str
    lock_name: str
    visible: str = ""
    index: int | None = None

    @property
    def lock_path(self) -> Path:
        """Lock file of the device, one per host, whoever uses it and wherever their caches are."""
        return lock_folder() / f"{self.lock_name}.lock"

    def lock(self, on_wait: Callable[[dict[str, Any]], None]) -> FileLock:
        """Take the device for one trial, waiting as long as it needs; see `wait_for`.

        Raises:
            UserError: the folder of the locks cannot be used.
        """
        try:
            make_shared_folder(self.lock_path.parent)
            lock = FileLock.try_acquire(self.lock_path)
        except OSError as error:
            raise UserError(
                f"cannot lock {self.name}: {error.strerror}: {error.filename}; set ABLATE_LOCKS to a folder that all "
                "users of this machine share"
            ) from error
        return lock or wait_for(self.lock_path, on_wait)


def detect_device(environment: Mapping[str, str] | None = None) -> Device:
    """The first GPU that the caller may see, else this host's CPU."""
    return _first_gpu(os.environ if environment is None else environment) or cpu_device()


def pick_device(kind: Literal["cpu", "cuda"], environment: Mapping[str, str] | None = None) -> Device:
    """The device of the given kind.

    Raises:
        UserError: a GPU is asked for and none is visible.
    """
    if kind == "cpu":
        return cpu_device()
    gpu = _first_gpu(os.environ if environment is None else environment)
    if gpu is None:
        raise UserError(
            "the study asks for cuda and no GPU is visible here; set device: cpu or auto in the spec"
        )
    return gpu


def cpu_device() -> Device:
    """This host's CPU, the whole of it: two trials never share it."""
    return Device(kind="cpu", name=_cpu_name(), lock_name=f"host-cpu-{_file_safe(socket.gethostname())}")


def _first_gpu(environment: Mapping[str, str]) -> Device | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handle = _visible_handle(pynvml, environment.get("CUDA_VISIBLE_DEVICES"))
        if handle is None:
            return None
        uuid, name = _text(pynvml.nvmlDeviceGetUUID(handle)), _text(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
    return Device(kind="cuda", name=name, lock_name=_file_safe(uuid), visible=uuid, index=0)


def _visible_handle(pynvml: Any, visible: str | None) -> Any | None:
    """Handle of the first GPU that `CUDA_VISIBLE_DEVICES` lists (an index in PCI order, or a UUID)."""
    if visible is None:
        return pynvml.nvmlDeviceGetHandleByIndex(0) if pynvml.nvmlDeviceGetCount() else None
    first = visible.split(",")[0].strip()
    if not first or first == "-1":
        return None
    if first.isdigit():
        return pynvml.nvmlDeviceGetHandleByIndex(int(first))
    return pynvml.nvmlDeviceGetHandleByUUID(first)


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _file_safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
