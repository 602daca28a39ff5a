"""Work that starts processes -> its wall time, CPU time and peak memory, ended when the machine runs out of memory."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

GB = 1e9
SAMPLE_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What some work took.

    Attributes:
        wall_s, cpu_s: Seconds on the clock, and of all cores together in the processes it started.
        peak_gb: Largest memory of all its processes together: each one's largest resident set so far, pages of mapped
            files included.
    """

    wall_s: float
    cpu_s: float
    peak_gb: float


class OutOfMemoryError(Exception):
    """The work was ended because the machine had too little memory left."""


def measure(work: Callable[[], None], least_available_gb: float) -> Cost:
    """Do the work and watch the processes that it starts.

    Raises:
        OutOfMemoryError: less than `least_available_gb` was available, so its processes were killed.
    """
    watch = _Watch(least_available_gb)
    cpu_before, began = _children_cpu_s(), time.monotonic()
    watch.start()
    try:
        work()
    finally:
        watch.stop()
        if watch.exhausted:
            raise OutOfMemoryError(f"less than {least_available_gb:g} GB of memory were available; ended")
    return Cost(wall_s=time.monotonic() - began, cpu_s=_children_cpu_s() - cpu_before, peak_gb=watch.peak_gb)


class _Watch(threading.Thread):
    def __init__(self, least_available_gb: float) -> None:
        super().__init__(daemon=True)
        self._least, self._ended = least_available_gb, threading.Event()
        self.peak_gb, self.exhausted = 0.0, False

    def run(self) -> None:
        me = psutil.Process()
        while not self._ended.wait(SAMPLE_S):
            processes = me.children(recursive=True)
            self.peak_gb = max(self.peak_gb, sum(_largest_gb(process.pid) for process in processes))
            if psutil.virtual_memory().available < self._least * GB:
                self.exhausted = True
                for process in processes:
                    process.kill()

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _largest_gb(pid: int) -> float:
    """Largest resident set of a process so far (VmHWM), 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) * 1024 / GB for line in lines if line.startswith("VmHWM:")), 0.0)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
