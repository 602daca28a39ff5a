"""A workload and what is on -> `Diagnosis`: one process per recipe, with the environment of a trial."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ablate.core.cell import Cell, Execution
from ablate.core.errors import UserError
from ablate.core.evidence import counter_of
from ablate.core.optimization import Expectation
from ablate.core.recipe import Recipe
from ablate.core.request import Diagnosis, Probe, ProbeRequest, ProbeResult
from ablate.core.study import Factor, Study
from ablate.design.recipes import compose_cell, find_appliers
from ablate.records.store import read_json, write_json
from ablate.run.devices import pick_device
from ablate.run.process.child import TRAIN_COMMAND
from ablate.run.process.launch import child_environment
from ablate.run.process.missing_record import last_error_line, read_tail

Word = Literal["bites", "vacuous", "structural", "not measured"]


def diagnose(
    study: Study,
    *,
    execution: Execution,
    on: Sequence[str],
    hazards: bool,
    tell: Callable[[str], None],
    command: Sequence[str] = TRAIN_COMMAND,
) -> Diagnosis:
    """Train a few steps as asked, then once more with each optimization switched from where it is.

    Args:
        study: One workload; its factors are the optimizations to look at, its timing the number of steps.
        execution: `eager` or `compiled`.
        on: Names of the optimizations that are on; the others are off.
        hazards: Also try batches at the edge of what can be sampled.
        tell: Called with one sentence before each process.

    Raises:
        UserError: the recipe as asked cannot be trained, with the reason.
    """
    levels = {f.name: f.on if f.name in on else f.off for f in study.factors}
    with tempfile.TemporaryDirectory(prefix="ablate-diagnose-") as scratch:
        prober = _Prober(study=study, execution=execution, folder=Path(scratch), command=command)
        tell(f"{study.workloads[0].name}: {study.timing.steps_per_epoch} steps")
        result = prober.run(levels, hazards=hazards)
        if result.failure:
            raise UserError(f"{study.workloads[0].name} cannot be trained: {result.failure}")
        probes = [_probe(study, factor, levels, result, prober, tell) for factor in study.factors]
    return Diagnosis(
        workload=study.workloads[0].name,
        execution=execution,
        backend=study.compile_backend,
        num_batches=study.timing.steps_per_epoch,
        off_means=study.factors[0].off_means if study.factors else "today",
        levels=levels,
        result=result,
        probes=tuple(probes),
        device=study.device,
    )


def _probe(
    study: Study,
    factor: Factor,
    levels: Mapping[str, str],
    before: ProbeResult,
    prober: _Prober,
    tell: Callable[[str], None],
) -> Probe:
    now = levels[factor.name]
    switched = factor.off if now == factor.on else factor.on
    inert = study.inert_reason(factor, prober.execution)
    if inert:
        return Probe(optimization=factor.name, before=now, after=switched, inert=inert, verdict="inert")
    tell(f"{factor.name}: {now} -> {switched}")
    after = prober.run({**levels, factor.name: switched})
    changes = {
        e.counter: (before.evidence.counters[e.counter], after.evidence.counters[e.counter])
        for e in factor.info.expectations
        if e.counter in before.evidence.counters and e.counter in after.evidence.counters
    }
    moved = [
        e.counter
        for e in factor.info.expectations
        if e.counter in changes and _as_declared(e, changes[e.counter], turned_on=switched == factor.on)
    ]
    verdict: Word = "not measured" if not changes else "bites" if moved else "vacuous"
    if moved and study.device == "cpu" and all(counter_of(counter).device_only for counter in moved):
        verdict = "structural"
    return Probe(optimization=factor.name, before=now, after=switched, changes=changes, verdict=verdict, result=after)


def _as_declared(expectation: Expectation, change: tuple[float, float], *, turned_on: bool) -> bool:
    grew = change[1] - change[0] if turned_on else change[0] - change[1]
    return grew < 0 if expectation.direction == "fewer" else grew > 0


@dataclass(kw_only=True)
class _Prober:
    study: Study
    execution: Execution
    folder: Path
    command: Sequence[str]
    _count: int = 0

    def run(self, levels: Mapping[str, str], *, hazards: bool = False) -> ProbeResult:
        """Train one setting in a process of its own."""
        recipe = compose_cell(self.study, Cell(execution=self.execution, levels=levels), find_appliers(self.study))
        self._count += 1
        place = self.folder / str(self._count)
        place.mkdir()
        write_json(place / "study.json", self.study)
        device = pick_device(self.study.device)
        request = ProbeRequest(
            study_json=str(place / "study.json"),
            recipe=recipe,
            device_index=device.index,
            result_json=str(place / "result.json"),
            hazards=hazards,
        )
        write_json(place / "request.json", request)
        return self._read(place, self._start(place, recipe, device.visible))

    def _start(self, place: Path, recipe: Recipe, visible: str) -> int:
        environment = child_environment(
            os.environ,
            compile_cache=place / "cache",
            visible_gpu=visible,
            recipe_environment=recipe.environment,
            num_threads=self.study.num_threads,
        )
        with (place / "output.txt").open("wb") as output:
            return subprocess.run(
                [*self.command, "probe", str(place / "request.json")],
                env=environment,
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            ).returncode

    def _read(self, place: Path, code: int) -> ProbeResult:
        if not (place / "result.json").exists():
            said = last_error_line(read_tail(place / "output.txt")) or f"exit code {code}"
            return ProbeResult(failure=f"its process ended without a result: {said}")
        return read_json(place / "result.json", ProbeResult)
