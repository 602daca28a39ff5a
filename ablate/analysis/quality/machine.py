"""Records of trials -> findings: foreign load, foreign processes on the GPU, changed or held-back clocks."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from ablate.analysis.results.quality import Finding
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.core.record import Environment
from ablate.core.units import name_some

FOREIGN_CPUS = 0.5  # and at least 5 % of the machine, so that the daemons of a large one are no finding
FOREIGN_SHARE = 0.05
SLOWING = ("power cap", "hardware slowdown", "temperature", "temperature (hardware)", "power brake")
THROTTLED_S = 0.01
CLOCK_RATIO = 1.05
FIXED = {  # name in a snapshot -> what a person calls it
    "gpu.max_sm_clock_mhz": "the largest SM clock (MHz)",
    "gpu.max_memory_clock_mhz": "the largest memory clock (MHz)",
    "gpu.power_limit_w": "the power limit (W)",
    "governors": "the CPU governor",
}
MOVING = {"gpu.sm_clock_mhz": "SM clocks", "gpu.memory_clock_mhz": "memory clocks", "cpu_clock_mhz": "CPU clocks"}


def machine_findings(trials: WorkloadTrials) -> list[Finding]:
    """Say what disturbed the timed trials of a workload, and what to do; nothing is omitted because of it."""
    texts = [
        _named(trials, _foreign_load, "other processes kept up to {worst:.2g} CPUs busy during", "",
               "keep the machine quiet, or let more blocks average it out"),
        _named(trials, _foreign_processes, "other processes were on the GPU during", "",
               "give the study the GPU alone"),
        _named(trials, _throttled, "clocks were held back", " in",
               "cool the GPU or fix its clocks below its limits (nvidia-smi --lock-gpu-clocks)"),
        *_changes(trials),
    ]  # fmt: skip
    return [Finding(kind="note", text=text) for text in texts if text]


Measure = Callable[[Environment], tuple[float, str]]


def _named(trials: WorkloadTrials, measure: Measure, what: str, joint: str, advice: str) -> str | None:
    """One sentence that counts the trials in which something was more than nothing, naming the worst.

    Args:
        measure: environment -> how much (0 = nothing to tell) and of what kind.
    """
    found = []
    for (block, key), trial in sorted(trials.usable.items()):
        much, kind = measure(trial.record.environment)
        if much:
            found.append((much, kind, f"{trials.name_of(key)} in block {block}"))
    if not found:
        return None
    found.sort(key=lambda item: -item[0])
    kinds = ", ".join(dict.fromkeys(kind for _, kind, _ in found if kind))
    names = name_some([name for _, _, name in found])
    subject = what.format(worst=found[0][0]) + (f" ({kinds})" if kinds else "") + joint
    return f"{subject} {len(found)} of {len(trials.usable)} timed trials ({names}); {advice}"


def _foreign_load(environment: Environment) -> tuple[float, str]:
    cpus = environment.machine.foreign_cpus or 0.0
    return (cpus if cpus > max(FOREIGN_CPUS, FOREIGN_SHARE * (environment.num_cpus or 0)) else 0.0), ""


def _foreign_processes(environment: Environment) -> tuple[float, str]:
    machine = environment.machine
    return max(snapshot.gpu.num_foreign_processes or 0 for snapshot in (machine.start, machine.end)), ""


def _throttled(environment: Environment) -> tuple[float, str]:
    before, after = environment.machine.start.gpu, environment.machine.end.gpu
    now = [reason for reason in after.throttles if reason in SLOWING]
    ends, begins = after.throttled_s, before.throttled_s
    during = {name: ends[name] - begins[name] for name in ends if name in begins}
    long = [name for name, seconds in during.items() if seconds > THROTTLED_S]
    worst = max([*during.values(), THROTTLED_S])
    return (worst, ", ".join(dict.fromkeys([*now, *long]))) if now or long else (0.0, "")


def _changes(trials: WorkloadTrials) -> Iterator[str]:
    """Settings of the machine that changed inside a block, and clocks that moved by more than `CLOCK_RATIO`."""
    for block in trials.blocks:
        mine = [trial for place, trial in sorted(trials.usable.items()) if place[0] == block]
        machines = [trial.record.environment.machine for trial in mine]
        for name, words in FIXED.items():
            seen = dict.fromkeys(_text(value) for m in machines if (value := attrgetter(name)(m.start)))
            if len(seen) > 1:
                yield (
                    f"block {block}: {words} changed between trials ({', '.join(seen)}); set it once, and train this "
                    "block again in a new study"
                )
        for name, words in MOVING.items():
            clocks = [value for m in machines if (value := attrgetter(name)(m.end)) is not None]
            if clocks and max(clocks) > CLOCK_RATIO * min(clocks):
                yield (
                    f"block {block}: {words} at the end of trials range from {min(clocks):g} to {max(clocks):g} MHz; "
                    "fixed clocks compare better"
                )


def _text(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"
