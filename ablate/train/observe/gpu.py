"""A GPU, asked through its driver library -> driver, clocks, power limit, what holds clocks back, foreign processes.

What the driver does not tell is absent, never 0.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ablate.core.evidence import Gpu

THROTTLES = {
    "GpuIdle": "idle",
    "ApplicationsClocksSetting": "application clocks",
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SyncBoost": "sync boost",
    "SwThermalSlowdown": "temperature",
    "HwThermalSlowdown": "temperature (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
    "DisplayClockSetting": "display clocks",
}
WATTS_PER_MILLIWATT = 1e-3
SECONDS_PER_NANOSECOND = 1e-9


def read_gpu(visible: str | None, *, ours: bool) -> Gpu:
    """Ask for the facts of the GPU that this process trains on.

    Args:
        visible: Value of `CUDA_VISIBLE_DEVICES`; its first entry is the GPU.
        ours: Whether this process has used the GPU already, so that one of the processes on it is this one.

    Returns:
        What it tells; nothing where there is no driver.
    """
    with _driver() as nvml:
        if nvml is None:
            return Gpu()
        handle = _ask(nvml, *_place(visible))
        if handle is None:
            return Gpu()
        facts: dict[str, Any] = {
            "driver": _text(_ask(nvml, "nvmlSystemGetDriverVersion")),
            "sm_clock_mhz": _ask(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": _ask(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            "max_sm_clock_mhz": _ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
            "max_memory_clock_mhz": _ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM),
            "power_limit_w": _scaled(_ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle), WATTS_PER_MILLIWATT),
            "throttles": _name_throttles(nvml, _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)),
            "throttled_s": _read_violations(nvml, handle),
            "num_foreign_processes": _count_foreign(_ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle), ours),
        }
    return Gpu(**{name: value for name, value in facts.items() if value is not None})


@contextmanager
def _driver() -> Iterator[Any]:
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _place(visible: str | None) -> tuple[str, Any]:
    first = (visible or "0").split(",")[0].strip()
    if first.isdecimal():
        return "nvmlDeviceGetHandleByIndex", int(first)
    return "nvmlDeviceGetHandleByUUID", first


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """Call the driver; None when this GPU or this driver does not answer that."""
    try:
        return getattr(nvml, function)(*arguments)
    except nvml.NVMLError:
        return None


def _name_throttles(nvml: Any, bits: int | None) -> tuple[str, ...]:
    bits = bits or 0
    return tuple(
        words for name, words in THROTTLES.items() if bits & getattr(nvml, f"nvmlClocksThrottleReason{name}", 0)
    )


def _read_violations(nvml: Any, handle: Any) -> Mapping[str, float] | None:
    """Seconds for which clocks were held back since the driver was loaded, by reason."""
    policies = {"power cap": nvml.NVML_PERF_POLICY_POWER, "temperature": nvml.NVML_PERF_POLICY_THERMAL}
    told = {name: _ask(nvml, "nvmlDeviceGetViolationStatus", handle, policy) for name, policy in policies.items()}
    return {n: t.violationTime * SECONDS_PER_NANOSECOND for n, t in told.items() if t is not None} or None


def _count_foreign(processes: list[Any] | None, ours: bool) -> int | None:
    """Processes on the GPU but this one, whose number a container may hide behind another."""
    if processes is None:
        return None
    known = any(process.pid == os.getpid() for process in processes)
    return max(0, len(processes) - (1 if known or ours else 0))


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
