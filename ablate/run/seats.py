"""A wish such as `cuda:1` -> the device of a worker and its seat there: one worker per GPU without being told."""

from __future__ import annotations

from typing import Literal

from ablate.core.errors import UserError
from ablate.run.devices import Device, cpu_device, visible_gpus
from ablate.run.locks import FileLock, make_shared_folder


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


def take_seat(devices: tuple[Device, ...], wish: str | None) -> tuple[Device, FileLock | None]:
    """Choose a device: the one asked for, else the first without a worker, else the first.

    Args:
        devices: What is there (see `find_devices`).
        wish: Value of `--device`.

    Returns:
        The device, and the seat, held until it is released or this process ends; None when another worker of this host
        has that seat, so that the two take turns.

    Raises:
        UserError: there is no such device here, or the folder of the locks cannot be used.
    """
    if not devices:
        raise UserError("the study asks for cuda and no GPU is visible here; set device: cpu or auto in the spec")
    chosen = _wished(devices, wish)
    for device in chosen:
        try:
            make_shared_folder(device.lock_path.parent)
            seat = FileLock.try_acquire(device.lock_path.with_suffix(".seat"))
        except OSError as error:
            raise UserError(
                f"cannot lock {device.name}: {error.strerror}: {error.filename}; set ABLATE_LOCKS to a folder that all "
                "users of this machine share"
            ) from error
        if seat is not None:
            return device, seat
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
