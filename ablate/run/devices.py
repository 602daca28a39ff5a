"""The machine and a wish such as `cuda:1` -> the device of a worker, reserved and locked, and its environment."""

import os
import platform
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.locks import FileLock, make_shared_folder, read_owner, wait_for
from ablate.files.paths import lock_folder
from ablate.plugins.digests import EXTENSIONS, PACKAGES, installed_version, processor_name, training_code
from ablate.run.ledger.lock_owner import LockOwner


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

    def lock(self, on_wait: Callable[[LockOwner], None]) -> FileLock:
        """Take the device for one trial, waiting as long as it needs; see `wait_for`.

        Who waits stands in a queue of one, so that whoever has just let go of the device does not take it again before
        those who wait: two workers on one device take turns.

        Raises:
            UserError: the folder of the locks cannot be used.
        """
        try:
            make_shared_folder(self.lock_path.parent)
            queue = wait_for(
                self.lock_path.with_suffix(".queue"), lambda _: on_wait(LockOwner.parse(read_owner(self.lock_path)))
            )
            with queue:
                return wait_for(self.lock_path, lambda content: on_wait(LockOwner.parse(content)))
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
    return Device(kind="cpu", name=processor_name(), lock_name=f"host-cpu-{_file_safe(socket.gethostname())}")


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


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _file_safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def find_devices(kind: Literal["cpu", "cuda"]) -> tuple[Device, ...]:
    """The devices of a kind that a worker could train on here: every visible GPU, or the host's CPU."""
    return (cpu_device(),) if kind == "cpu" else visible_gpus()


def kind_of_wish(wish: str | None) -> Literal["cpu", "cuda"] | None:
    """`cpu` or `cuda` as far as `--device` says it; None for `auto`.

    Raises:
        UserError: it is none of `auto`, `cpu`, `cuda`, `cuda:<n>` and a UUID.
    """
    if wish is None or wish == "auto":
        return None
    if wish == "cpu":
        return "cpu"
    if wish == "cuda" or wish.startswith("GPU-") or wish.startswith("MIG-") or _index_of(wish) is not None:
        return "cuda"
    raise UserError(f"--device {wish}: give auto, cpu, cuda, cuda:<n> or the UUID of a GPU (nvidia-smi -L lists them)")


def reserve(devices: tuple[Device, ...], wish: str | None) -> tuple[Device, FileLock | None]:
    """Choose a device: the one asked for, else the first without a worker, else the first.

    Args:
        devices: What is there (see `find_devices`).
        wish: Value of `--device`.

    Returns:
        The device, and its reservation, held until it is released or this process ends; None when another worker of
        this host has reserved it, so that the two take turns.

    Raises:
        UserError: there is no such device here, or the folder of the locks cannot be used.
    """
    if not devices:
        raise UserError("the study asks for cuda and no GPU is visible here; set device: cpu or auto in the spec")
    chosen = _wished(devices, wish)
    for device in chosen:
        try:
            make_shared_folder(device.lock_path.parent)
            reservation = FileLock.try_acquire(device.lock_path.with_suffix(".worker"))
        except OSError as error:
            raise UserError(
                f"cannot lock {device.name}: {error.strerror}: {error.filename}; set ABLATE_LOCKS to a folder that all "
                "users of this machine share"
            ) from error
        if reservation is not None:
            return device, reservation
    return chosen[0], None


def _wished(devices: tuple[Device, ...], wish: str | None) -> tuple[Device, ...]:
    if wish in (None, "auto", "cpu", "cuda"):
        return devices
    assert wish is not None
    index = _index_of(wish)
    found = tuple(device for place, device in enumerate(devices) if place == index or device.visible == wish)
    if not found:
        here = ", ".join(f"cuda:{place} ({device.name})" for place, device in enumerate(devices))
        raise UserError(f"--device {wish} is not visible here; there is {here}")
    return found


def _index_of(wish: str) -> int | None:
    kind, _, index = wish.partition(":")
    return int(index) if kind == "cuda" and index.isdecimal() else None


NOT_MEASURED = ("optuna",)


def describe_worker(device: Device, study: Study) -> dict[str, str]:
    """Host, device, threads, versions and code: what must be equal for two workers to train trials of one block."""
    facts = {
        "host": socket.gethostname(),
        "device": device.name,
        "num_cpus": str(os.cpu_count()),
        "num_threads": str(study.num_threads or os.environ.get("OMP_NUM_THREADS", "all")),
        "python": platform.python_version(),
        "code": training_code(),
    }
    if device.kind == "cuda":
        facts["driver"] = device.driver
    versions = {name: installed_version(name) for name in (*PACKAGES, *EXTENSIONS) if name not in NOT_MEASURED}
    return facts | {name: version for name, version in versions.items() if version is not None}


def describe_difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs between two environments, e.g. `torch 2.12.0 there, 2.13.0 here`; empty when nothing does."""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(f"{name} {there.get(name, 'absent')} there, {here.get(name, 'absent')} here" for name in names)
