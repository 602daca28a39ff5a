"""What trials saw of their machine -> a finding with a number where it disturbed them, none where it did not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.analysis.analyze import analyze_trials
from ablate.analysis.trials.comparable import Trial
from ablate.core.evidence import Gpu, Machine, MachineSnapshot
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from builders import make_study
from simulated import make_records

ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))
GPU = Gpu(
    driver="570.1", sm_clock_mhz=1980, memory_clock_mhz=2600, max_sm_clock_mhz=1980, max_memory_clock_mhz=2600,
    power_limit_w=700.0, throttles=(), num_foreign_processes=0, throttled_s={"power cap": 5.0, "temperature": 0.0},
)  # fmt: skip


def machine(
    start: dict[str, Any] | None = None, end: dict[str, Any] | None = None, foreign_cpus: float | None = None
) -> Machine:
    first, last = (MachineSnapshot(gpu=replace(GPU, **(changes or {}))) for changes in (start, end))
    return Machine(start=first, end=last, foreign_cpus=foreign_cpus)


def findings(told: dict[str, Machine], blocks: int = 1) -> list[str]:
    """Findings of a study in which the named cell of block 0 saw this machine, and every other trial a quiet one."""
    study = make_study(design="cells", cells=ARMS, blocks=blocks)
    design = make_design(study)

    def change(record: Any, planned: Any) -> Any:
        seen = told.get(planned.cell.name) if planned.block == 0 else None
        environment = replace(record.environment, num_cpus=2, machine=seen or machine(foreign_cpus=0.1))
        return replace(record, environment=environment)

    trials = [Trial(record=record, folder=Path("none")) for record, _ in make_records(study, design, change=change)]
    return [f.text for f in analyze_trials(study, design, trials).workloads[0].quality.findings]


def test_a_quiet_machine_is_no_finding_and_an_old_record_neither() -> None:
    assert findings({}) == findings({"naive": Machine(start=MachineSnapshot(load_average=3.0))})
    assert not any("busy" in text or "clock" in text for text in findings({}))


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (
            machine(foreign_cpus=1.26),
            "other processes kept up to 1.3 CPUs busy during 1 of 3 timed trials (naive in block 0); "
            "keep the machine quiet, or let more blocks average it out",
        ),
        (
            machine(end={"num_foreign_processes": 2}),
            "other processes were on the GPU during 1 of 3 timed trials (naive in block 0); "
            "give the study the GPU alone",
        ),
        (
            machine(end={"throttles": ("idle", "power cap"), "throttled_s": {"power cap": 7.0, "temperature": 0.0}}),
            "clocks were held back (power cap) in 1 of 3 timed trials (naive in block 0); "
            "cool the GPU or fix its clocks below its limits (nvidia-smi --lock-gpu-clocks)",
        ),
        (
            machine(start={"power_limit_w": 350.0}),
            "block 0: the power limit (W) changed between trials (700, 350); set it once, and train this block "
            "again in a new study",
        ),
        (
            machine(end={"sm_clock_mhz": 1200}),
            "block 0: SM clocks at the end of trials range from 1200 to 1980 MHz; fixed clocks compare better",
        ),
    ],
)
def test_each_disturbance_is_told_once_with_the_trial(seen: Machine, text: str) -> None:
    told = findings({"naive": seen})
    quiet = findings({})
    new = [line for line in told if line not in quiet]
    # the order inside the block decides which value comes first
    assert new == [text] or new == [text.replace("(700, 350)", "(350, 700)")]


def test_a_change_between_blocks_is_not_one_inside_a_block() -> None:
    slower = machine(end={"sm_clock_mhz": 1200})
    assert not any("SM clocks" in text for text in findings({"eager": slower, "naive": slower, "full": slower}, 2))
