"""The machine before and after a training -> who else used it, its load, its clocks, and what held them back.

Read outside the timed part, from files of the kernel and the GPU's driver library. What a machine or its driver does
not tell is absent, never 0.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ablate.core.evidence import Gpu, Machine, MachineSnapshot

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


ROOT = Path("/")


def snapshot_machine(*, on_gpu: bool, ours: bool = False, root: Path = ROOT) -> MachineSnapshot:
    """Look at the machine.

    Args:
        on_gpu: Whether the trial trains on a GPU, whose driver is then asked.
        ours: Whether this process has used that GPU already.
        root: Where the kernel's files are.
    """
    return MachineSnapshot(
        load_average=_read_load(root),
        governors=_read_governors(root),
        cpu_clock_mhz=_read_cpu_clock(root),
        gpu=read_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), ours=ours) if on_gpu else Gpu(),
        at_s=time.monotonic(),
        busy_s=_read_busy(root),
        own_s=_read_own(root),
    )


def describe_machine(before: MachineSnapshot, after: MachineSnapshot) -> Machine:
    """Put two snapshots together with what others did in between."""
    return Machine(start=before, end=after, foreign_cpus=_foreign_cpus(before, after))


def _foreign_cpus(before: MachineSnapshot, after: MachineSnapshot) -> float | None:
    if before.busy_s is None or after.busy_s is None or before.own_s is None or after.own_s is None:
        return None
    if before.at_s is None or after.at_s is None:
        return None
    others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return round(max(0.0, others_s) / (after.at_s - before.at_s), 3)


def _read_load(root: Path) -> float | None:
    """Load average of the last minute."""
    text = _read(root / "proc/loadavg")
    return float(text.split()[0]) if text else None


def _read_busy(root: Path) -> float | None:
    line = _read(root / "proc/stat").partition("\n")[0].split()
    if line[:1] != ["cpu"] or len(line) < 9:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _read_own(root: Path) -> float | None:
    """CPU time of every process of this session: a trial leads one, and loader and compiler processes are in it."""
    session, ticks = os.getsid(0), 0
    stats = list((root / "proc").glob("[0-9]*/stat"))
    for path in stats:
        fields = _read(path).rpartition(")")[2].split()  # after the name, which can hold anything
        if len(fields) > 14 and int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK") if stats else None


def _read_governors(root: Path) -> tuple[str, ...]:
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return tuple(sorted({_read(path).strip() for path in paths} - {""}))


def _read_cpu_clock(root: Path) -> float | None:
    """Mean clock of the CPUs in MHz, where the kernel tells."""
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    clocks = [int(text) for path in paths if (text := _read(path).strip())]
    return round(sum(clocks) / len(clocks) / 1000) if clocks else None


def _read(path: Path) -> str:
    """Text of a kernel file; empty when it is not there (any more) or not for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
