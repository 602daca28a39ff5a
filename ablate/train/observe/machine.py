"""The machine before and after a training -> who else used it, its load, its clocks, and what held them back.

Read outside the timed part, from the files of the kernel and the GPU's driver. What a machine does not tell is absent.
"""

import os
import time
from pathlib import Path

from ablate.core.evidence import Gpu, Machine, MachineSnapshot
from ablate.train.observe.gpu import read_gpu

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
