"""`ablate diagnose WORKLOAD`: breaks, recompiles and would-be syncs of a few training steps, on one screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ablate.cli.terminal import Json, print_error, print_json, print_line, print_table
from ablate.core.evidence import counter_of

if TYPE_CHECKING:
    from ablate.core.request import Diagnosis, Probe, ProbeResult
    from ablate.core.study import Study

GUIDE = ("dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free")
COLUMNS = ("compiles.forward", "compiles.optimizer_step", "graph_breaks", "syncs_per_step")
LONGEST_REASON = 110
SMALL = {"scale": "tiny", "channels": 16, "num_neighbors": [8, 4], "encoder_layers": 1}  # where a workload has them
SPEC = """\
study: diagnose
workloads: [{{use: {workload}, options: {options}}}]
optimizations: {optimizations}
off_means: {off_means}
design: [eager]
blocks: 1
compile_backend: {backend}
timing: {{epochs: 2, steps_per_epoch: {batches}, horizon_epochs: 10}}
training: {{batch_size: 64, schedule: linear}}
"""


def register(app: typer.Typer) -> None:
    """Add this command to the program."""
    app.command()(diagnose)


def diagnose(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="Name, or path/to/file.py.")],
    on: Annotated[
        list[str] | None, typer.Option("--on", help="Optimization that is on: a name, `all`, or path/to/file.py.")
    ] = None,
    off_means: Annotated[str, typer.Option("--off-means", help="today or guide.")] = "today",
    batches: Annotated[int, typer.Option("--batches", min=2, max=1000, help="Training steps.")] = 12,
    tried: Annotated[
        list[str] | None, typer.Option("--try", help="Only this optimization, instead of the guide's five.")
    ] = None,
    hazards: Annotated[bool, typer.Option("--hazards", help="Also try sizes 0 and 1 and equal sizes.")] = False,
    eager: Annotated[bool, typer.Option("--eager", help="Compile nothing.")] = False,
    backend: Annotated[str, typer.Option("--backend", help="inductor, aot_eager or eager.")] = "aot_eager",
    dataset: Annotated[str, typer.Option("--data", help="look-alike, a hub name, or a folder.")] = "look-alike",
    as_json: Json = False,
) -> None:
    """Show what keeps a workload from training fast: breaks, recompiles, syncs, and what each optimization changes.

    Every setting trains a few steps in a process of its own. Nothing is timed or recorded.
    """
    from ablate.run.process.diagnosis import diagnose as diagnose_workload

    study, names = make_study(workload, on or [], tried or [], off_means, batches, backend, dataset)
    found = diagnose_workload(
        study,
        execution="eager" if eager else "compiled",
        on=names,
        hazards=hazards,
        tell=lambda sentence: print_error(sentence) if sys.stderr.isatty() else None,
    )
    if as_json:
        print_json(found)
    else:
        print_diagnosis(found)


def make_study(
    workload: str, on: Sequence[str], tried: Sequence[str], off_means: str, batches: int, backend: str, dataset: str
) -> tuple[Study, list[str]]:
    """Read the arguments as a spec, so that names are checked as everywhere; returns the names that are on.

    Raises:
        UserError: an argument is wrong.
    """
    import json
    import tempfile
    from dataclasses import fields, replace

    from ablate.core.study import Timing
    from ablate.plugins.registry import make_catalog
    from ablate.run.devices import detect_device
    from ablate.spec.names import Names
    from ablate.spec.reader import read_study

    catalog = make_catalog()
    found = Names(catalog=catalog, folder=Path()).workload(_place(workload))
    asked: dict[str, object] = {**SMALL, "dataset": _data(dataset)}
    asked |= {} if dataset == "look-alike" else {"scale": None}
    options = {f.name: asked[f.name] for f in fields(found.info.options) if f.name in asked}
    everything = "all" in on
    wanted = list(dict.fromkeys([*(tried or GUIDE), *(name for name in on if name != "all")]))
    text = SPEC.format(
        workload=json.dumps(_place(workload)), options=json.dumps(options), off_means=off_means,
        optimizations=json.dumps({_place(name): "both" for name in wanted}), batches=batches, backend=backend,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "diagnose.yaml"
        path.write_text(text, encoding="utf-8")
        study = read_study(path, catalog=catalog, device=detect_device().kind)
    study = replace(study, timing=Timing(epochs=1, steps_per_epoch=batches, horizon_epochs=1))
    places = {factor.path or factor.name: factor.name for factor in study.factors}
    names = list(places.values()) if everything else [places[_place(name)] for name in on]
    return study, names


def print_diagnosis(found: Diagnosis) -> None:
    """Print one screen."""
    levels = ", ".join(f"{name}={level}" for name, level in found.levels.items())
    how = "eager" if found.execution == "eager" else f"compiled with {found.backend}"
    print_line(f"{found.workload}: {found.num_batches} training steps, {how}, off means {found.off_means}")
    print_line(f"levels: {levels}\n")
    _print_compilations(found.result)
    _print_syncs(found.result, on_gpu=found.device == "cuda")
    _print_hazards(found.result)
    print_line("what switching one optimization would change")
    rows = [_probe_row(found.result, probe) for probe in found.probes]
    print_table(("optimization", "switch", *(counter_of(name).title for name in COLUMNS), "did it bite?"), rows)


def _print_compilations(result: ProbeResult) -> None:
    evidence = result.evidence
    counts = ", ".join(f"{counter_of(name).title} {evidence.counters[name]:.0f}" for name in COLUMNS[:3])
    print_line(f"compiler: {counts}, {evidence.counters['compile_s']:.1f} s")
    for event in evidence.events:
        if event.reason:
            print_line(f"  step {event.step}: {event.function} again, since not {_short(event.reason)}")
    for hit in evidence.limit_hits:
        print_line(f"  step {hit.step}: {hit.function} runs eagerly from here on (recompile limit)")
    for graph_break in evidence.graph_breaks:
        print_line(f"  break x{graph_break.count} {graph_break.location} {_short(graph_break.reason)}")


def _print_syncs(result: ProbeResult, *, on_gpu: bool) -> None:
    evidence = result.evidence
    if "syncs_per_step" not in evidence.counters:
        print_line("\nsyncs: not measured, each batch compiles anew\n")
        return
    what = "waits for the GPU" if on_gpu else "would-be syncs"
    print_line(f"\n{what}: {evidence.counters['syncs_per_step']:.0f} a step")
    for line, number in sorted(evidence.sync_sources.items(), key=lambda item: -item[1]):
        print_line(f"  {number} x {line}")
    if "eager_syncs_per_step" in evidence.counters:
        print_line(f"  (the same step with nothing compiled: {evidence.counters['eager_syncs_per_step']:.0f})")
    print_line()


def _print_hazards(result: ProbeResult) -> None:
    if not result.hazards:
        return
    rows: list[tuple[str, Any, str]] = []
    for hazard in result.hazards:
        reasons = "; ".join(_short(event.reason or "first compilation") for event in hazard.events)
        rows.append((hazard.name, f"{hazard.loss_difference:.1e}", reasons or "no recompilation"))
    print_line("batches at the edge of what can be sampled")
    print_table(("batch", "loss differs from eager by", "compiles again, since not"), rows)


def _probe_row(before: ProbeResult, probe: Probe) -> list[str]:
    switch = f"{probe.before} -> {probe.after}"
    if probe.inert or probe.result is None:
        return [probe.optimization, switch, *("-" for _ in COLUMNS), f"inert: {probe.inert}"]
    if probe.result.failure:
        return [probe.optimization, switch, *("-" for _ in COLUMNS), f"fails: {_short(probe.result.failure)}"]
    old, new = before.evidence.counters, probe.result.evidence.counters
    return [probe.optimization, switch, *(_change(old.get(key), new.get(key)) for key in COLUMNS), probe.verdict]


def _change(old: float | None, new: float | None) -> str:
    """A counter before and after a switch; `-` where it was not measured."""
    before, after = ("-" if value is None else f"{value:.0f}" for value in (old, new))
    return before if before == after else f"{before} -> {after}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 3] + "..."


def _place(name: str) -> str:
    """A file by its absolute path, anything else as it is."""
    return str(Path(name).expanduser().resolve()) if name.endswith(".py") else name


def _data(dataset: str) -> str:
    return str(Path(dataset).expanduser().resolve()) if "/" in dataset or dataset.startswith((".", "~")) else dataset
