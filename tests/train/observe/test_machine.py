"""Looks at the machine: files of the kernel as they are here, a made-up kernel by hand, and a stand-in GPU driver.

No GPU is on the machines where these tests run by default: the driver's answers are made up at the boundary of
`pynvml`, and the test marked `gpu` asks a real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from ablate.core.evidence import Gpu, Machine, MachineSnapshot
from ablate.train.observe.machine import describe_machine, read_gpu, snapshot_machine


class FakeNvmlError(Exception):
    pass


def refuse(*_: Any) -> None:
    raise FakeNvmlError("not supported")


def make_driver(**changes: Any) -> types.SimpleNamespace:
    """A driver with one GPU: 1,410 of 1,980 MHz, 350 W, power-capped for 2.5 s so far, two processes on it."""
    clocks = {0: 1410, 1: 1593}
    largest = {0: 1980, 1: 2619}
    driver = {
        "NVMLError": FakeNvmlError, "NVML_CLOCK_SM": 0, "NVML_CLOCK_MEM": 1,
        "NVML_PERF_POLICY_POWER": 0, "NVML_PERF_POLICY_THERMAL": 1,
        "nvmlClocksThrottleReasonGpuIdle": 1, "nvmlClocksThrottleReasonSwPowerCap": 4,
        "nvmlInit": lambda: None, "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"570.86.15",
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetHandleByIndex": lambda index: f"GPU-{index}",
        "nvmlDeviceGetClockInfo": lambda handle, kind: clocks[kind],
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: largest[kind],
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 350_000,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 4,
        "nvmlDeviceGetViolationStatus":
            lambda handle, policy: types.SimpleNamespace(violationTime=2_500_000_000 if policy == 0 else 0),
        "nvmlDeviceGetComputeRunningProcesses":
            lambda handle: [types.SimpleNamespace(pid=os.getpid()), types.SimpleNamespace(pid=1)],
    }  # fmt: skip
    return types.SimpleNamespace(**{**driver, **changes})


def test_what_a_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", make_driver())
    assert read_gpu("GPU-abc", ours=True) == Gpu(
        driver="570.86.15",
        sm_clock_mhz=1410,
        memory_clock_mhz=1593,
        max_sm_clock_mhz=1980,
        max_memory_clock_mhz=2619,
        power_limit_w=350.0,
        throttles=("power cap",),
        throttled_s={"power cap": 2.5, "temperature": 0.0},
        num_foreign_processes=1,
    )


def test_what_a_driver_does_not_tell_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = make_driver(nvmlDeviceGetEnforcedPowerLimit=refuse, nvmlDeviceGetViolationStatus=refuse,
                         nvmlDeviceGetComputeRunningProcesses=refuse)  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", silent)
    facts = read_gpu(None, ours=False)
    assert (facts.power_limit_w, facts.throttled_s, facts.num_foreign_processes) == (None, {}, None)
    assert facts.sm_clock_mhz == 1410
    monkeypatch.setitem(sys.modules, "pynvml", make_driver(nvmlInit=refuse))
    assert read_gpu(None, ours=False) == Gpu()
    monkeypatch.setitem(sys.modules, "pynvml", make_driver(nvmlDeviceGetHandleByIndex=refuse))
    assert read_gpu("3", ours=False) == Gpu()


def test_a_container_that_hides_our_number_does_not_make_us_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = make_driver(nvmlDeviceGetComputeRunningProcesses=lambda handle: [types.SimpleNamespace(pid=2**22 + 1)])
    monkeypatch.setitem(sys.modules, "pynvml", hidden)
    assert read_gpu(None, ours=True).num_foreign_processes == 0
    assert read_gpu(None, ours=False).num_foreign_processes == 1


def make_kernel(root: Path, *, busy: int, load: str = "1.50 1.00 0.50 3/99 7") -> Path:
    """Files of a kernel that has been busy for so many ticks, with two CPUs at 2.4 and 3.0 GHz."""
    (root / "proc" / "1").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "loadavg").write_text(load + "\n")
    (root / "proc" / "stat").write_text(f"cpu  {busy} 0 0 1000 5 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    session = os.getsid(0)
    ours = ["S", "0", "0", str(session), *["0"] * 7, "60", "20", "15", "5", *["0"] * 10]
    (root / "proc" / "1" / "stat").write_text(f"1 (a ) name (x) {' '.join(ours)}\n")
    for number, khz in enumerate((2_400_000, 3_000_000)):
        folder = root / "sys/devices/system/cpu" / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling_governor").write_text("performance\n")
        (folder / "scaling_cur_freq").write_text(f"{khz}\n")
    return root


def test_numbers_of_the_kernel_by_hand(tmp_path: Path) -> None:
    look = snapshot_machine(on_gpu=False, root=make_kernel(tmp_path, busy=250))
    ticks = os.sysconf("SC_CLK_TCK")
    assert (look.load_average, look.governors, look.cpu_clock_mhz) == (1.5, ("performance",), 2700)
    assert (look.busy_s, look.own_s) == (250 / ticks, (60 + 20 + 15 + 5) / ticks)


def test_foreign_cpus_are_what_is_busy_without_us() -> None:
    before = MachineSnapshot(at_s=10.0, busy_s=100.0, own_s=5.0)
    after = MachineSnapshot(at_s=20.0, load_average=2.0, busy_s=127.0, own_s=12.0)
    # 27 s busy, 7 of them ours, in 10 s
    assert describe_machine(before, after) == Machine(start=before, end=after, foreign_cpus=2.0)
    assert describe_machine(before, MachineSnapshot(at_s=20.0)).foreign_cpus is None


def test_a_kernel_that_tells_nothing_leaves_nothing(tmp_path: Path) -> None:
    look = snapshot_machine(on_gpu=False, root=tmp_path)
    assert look == MachineSnapshot(at_s=look.at_s)


LOOK_BURN_LOOK = """
import subprocess, sys
from pathlib import Path
from ablate.train.observe.machine import snapshot_machine
from run_parts import wait_until

done, foreign = Path(sys.argv[1]), sys.argv[2:] == ["foreign"]
burn = (
    "import pathlib, sys, time\\n"
    "end = time.process_time() + 1\\n"
    "while time.process_time() < end: pass\\n"
    "pathlib.Path(sys.argv[1]).touch()"
)
before = snapshot_machine(on_gpu=False)
subprocess.run([*(["setsid", "--fork"] if foreign else []), sys.executable, "-c", burn, str(done)], check=True)
wait_until(done.exists, 60)
after = snapshot_machine(on_gpu=False)
print(after.busy_s - before.busy_s, after.own_s - before.own_s)
"""


@pytest.mark.parametrize("who", ["ours", "foreign"])
def test_a_real_process_is_ours_or_foreign(tmp_path: Path, who: str) -> None:
    """A child burns a second of CPU time in the session of the one who looks, or in one of its own.

    The one who looks leads a session too, as a trial does: other tests that run meanwhile are not in it.
    """
    told = subprocess.run([sys.executable, "-c", LOOK_BURN_LOOK, str(tmp_path / "done"), who],
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, start_new_session=True,
                          check=True, capture_output=True, text=True)  # fmt: skip
    busy_s, own_s = map(float, told.stdout.split())
    assert busy_s >= 0.9
    assert (own_s >= 0.9) == (who == "ours")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_driver_tells_clocks_and_power() -> None:
    before = read_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), ours=False)
    torch.ones(2048, 2048, device="cuda").matmul(torch.ones(2048, 2048, device="cuda")).sum().item()
    after = read_gpu(os.environ.get("CUDA_VISIBLE_DEVICES"), ours=True)
    assert before.driver and before.driver == after.driver and before.driver[0].isdigit()
    assert after.sm_clock_mhz and after.max_sm_clock_mhz and 100 <= after.sm_clock_mhz <= after.max_sm_clock_mhz
    assert after.power_limit_w and 10 < after.power_limit_w < 2000
    assert after.num_foreign_processes == before.num_foreign_processes
