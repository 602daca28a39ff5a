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
from ablate.run.locks import FileLock, make_shared_folder, read_holder, wait_for


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device.

    Attributes:
        kind: `cpu` or `cuda`.
        name: What a person calls it, e.g. `NVIDIA L4`.
        lock_name: Identity of the device on this host.
        visible: Value of `CUDA_VISIBLE_DEVICES` for the child: the claimed GPU, or empty to hide all.
        index: Index of the device as the child sees it; None on a CPU.
        driver: Version of the driver; empty on a CPU.
    """

    kind: Literal["cpu", "cuda"]
    name: str
    lock_name: str
    visible: str = ""
    index: int | None = None
    driver: str = ""

    @property
    def lock_path(self) -> Path:
        """Lock file of the device, one per host, whoever uses it and wherever their caches are."""
        return lock_folder() / f"{self.lock_name}.lock"

    def lock(self, on_wait: Callable[[dict[str, Any]], None]) -> FileLock:
        """Take the device for one trial, waiting as long as it needs; see `wait_for`.

        Who waits stands in a queue of one, so that whoever has just let go of the device does not take it again before
        those who wait: two workers on one device take turns.

        Raises:
            UserError: the folder of the locks cannot be used.
        """
        try:
            make_shared_folder(self.lock_path.parent)
            queue = wait_for(self.lock_path.with_suffix(".queue"), lambda _: on_wait(read_holder(self.lock_path)))
            with queue:
                return wait_for(self.lock_path, on_wait)
        except OSError as error:
            raise UserError(
                f"cannot lock {self.name}: {error.strerror}: {error.filename}; set ABLATE_LOCKS to a folder that all "
                "users of this machine share"
            ) from error


def detect_device(environment: Mapping[str, str] | None = None) -> Device:
    """The first GPU that the caller may see, else this host's CPU."""
    gpus = visible_gpus(environment)
    return gpus[0] if gpus else cpu_device()


def pick_device(kind: Literal["cpu", "cuda"], environment: Mapping[str, str] | None = None) -> Device:
    """The device of the given kind.

    Raises:
        UserError: a GPU is asked for and none is visible.
    """
    if kind == "cpu":
        return cpu_device()
    gpus = visible_gpus(environment)
    if not gpus:
        raise UserError("the study asks for cuda and no GPU is visible here; set device: cpu or auto in the spec")
    return gpus[0]


def cpu_device() -> Device:
    """This host's CPU, the whole of it: two trials never share it."""
    return Device(kind="cpu", name=_cpu_name(), lock_name=f"host-cpu-{_file_safe(socket.gethostname())}")


def visible_gpus(environment: Mapping[str, str] | None = None) -> tuple[Device, ...]:
    """The GPUs that the caller may see, in the caller's order; none where there is no driver."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    visible = (os.environ if environment is None else environment).get("CUDA_VISIBLE_DEVICES")
    try:
        return tuple(_gpu(pynvml, handle) for handle in _visible_handles(pynvml, visible))
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _gpu(pynvml: Any, handle: Any) -> Device:
    uuid, name = _text(pynvml.nvmlDeviceGetUUID(handle)), _text(pynvml.nvmlDeviceGetName(handle))
    driver = _text(pynvml.nvmlSystemGetDriverVersion())
    return Device(kind="cuda", name=name, lock_name=_file_safe(uuid), visible=uuid, index=0, driver=driver)


def _visible_handles(pynvml: Any, visible: str | None) -> list[Any]:
    """Handles of the GPUs that `CUDA_VISIBLE_DEVICES` lists (indices in PCI order, or UUIDs; -1 ends the list)."""
    if visible is None:
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    handles = []
    for name in (part.strip() for part in visible.split(",")):
        if not name or name == "-1":
            break
        by_index = name.isdecimal()
        handles.append(
            pynvml.nvmlDeviceGetHandleByIndex(int(name)) if by_index else pynvml.nvmlDeviceGetHandleByUUID(name)
        )
    return handles


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
