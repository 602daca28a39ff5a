"""The machine before and after a training -> who else used it, its load, its clocks, and what held them back.

Read outside the timed part, from the files of the kernel and the GPU's driver. What a machine does not tell is absent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.train.observe.gpu import read_gpu

ROOT = Path("/")


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look at the machine.

    Attributes:
        at_s: When, on the clock of `time.monotonic`.
        facts: Plain values for the record.
        busy_s: CPU time that everything on this host has used so far, time stolen by a hypervisor included.
        own_s: CPU time that this process and its descendants have used so far.
    """

    at_s: float
    facts: Mapping[str, Any]
    busy_s: float | None
    own_s: float | None


def look_around(*, on_gpu: bool, ours: bool = False, root: Path = ROOT) -> Look:
    """Look at the machine.

    Args:
        on_gpu: Whether the trial trains on a GPU, whose driver is then asked.
        ours: Whether this process has used that GPU already.
        root: Where the kernel's files are.
    """
    facts: dict[str, Any] = {"load_average": _read_load(root), **_read_cpu_clocks(root)}
    if on_gpu:
        facts["gpu"] = read_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), ours=ours) or None
    return Look(
        at_s=time.monotonic(),
        facts={name: value for name, value in facts.items() if value is not None},
        busy_s=_read_busy(root),
        own_s=_read_own(root),
    )


def add_machine(environment: Mapping[str, Any], before: Look, after: Look | None = None) -> dict[str, Any]:
    """An environment with its `driver` and `machine`: the two looks, and what happened in between.

    `machine` has `start`, `end` and `foreign_cpus`, the number of CPUs that others kept busy on average.
    """
    machine: dict[str, Any] = {"start": dict(before.facts)}
    if after is not None:
        machine["end"] = dict(after.facts)
        foreign = _foreign_cpus(before, after)
        if foreign is not None:
            machine["foreign_cpus"] = foreign
    driver = before.facts.get("gpu", {}).get("driver")
    return {**environment, **({"driver": driver} if driver else {}), "machine": machine}


def _foreign_cpus(before: Look, after: Look) -> float | None:
    if before.busy_s is None or after.busy_s is None or before.own_s is None or after.own_s is None:
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


def _read_cpu_clocks(root: Path) -> dict[str, Any]:
    """Governors of the CPUs and their mean clock, where the kernel tells."""
    folder = root / "sys/devices/system/cpu"
    governors = {_read(path).strip() for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    clocks = [int(text) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq") if (text := _read(path).strip())]
    facts: dict[str, Any] = {}
    if governors:
        facts["governors"] = sorted(governors)
    if clocks:
        facts["cpu_clock_mhz"] = round(sum(clocks) / len(clocks) / 1000)
    return facts


def _read(path: Path) -> str:
    """Text of a kernel file; empty when it is not there (any more) or not for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
