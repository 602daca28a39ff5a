"""`ablate init` and `ablate schema`: a first spec, a workload of one's own, and what editors need to complete specs."""

import os
import shlex
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.terminal import FIRST_SPEC, print_json, print_line
from ablate.core.errors import UserError

STARTER = """\
# A study: one question about training speed. Start with:
#
#   ablate plan {name}     # cells, aliases, number of trials, hours: nothing is started
#   ablate run {name}      # trains what is missing, then writes the PDF; interrupt it whenever you like

study: my-study                     # names the folders runs/my-study and reports/my-study, and the MLflow experiment
question: Which of the optimizations makes training faster on this machine?

workloads: [hm/user-churn]          # also hm/item-sales, hm/user-item-purchase, or path/to/your_workload.py
data: {{dataset: look-alike, scale: tiny}}   # or rel-hm, or a folder in RelBench format

optimizations:                      # both: varies between cells; on, off: fixed. A path/to/file.py works too
  dynamic_shapes: both
  tensor_lr: both
  string_keys: both
  no_cuda_graphs: both
  sync_free: both

design: leave-one-out               # factorial, ladder, leave-one-out, add-one-in, or a list of arms
blocks: 5                           # fewer than five give no claims, one gives no interval

timing: {{epochs: 4, steps_per_epoch: 20, horizon_epochs: 10}}
training: {{channels: 16, num_neighbors: [8, 4], batch_size: 64}}
equivalence: default                # parity trials; for whole trainings, `ablate margins {name}` proposes margins
device: auto
"""

OWN = """\
# A study of a workload of your own. Start with:
#
#   ablate plan {name}     # cells, aliases, number of trials, time: nothing is started
#   ablate run {name}      # trains what is missing, then writes the PDF; interrupt it whenever you like

study: my-study                     # names the folders runs/my-study and reports/my-study, and the MLflow experiment
question: Do compiling and a fused optimizer make my training faster?

workloads: [{workload}]             # with options: [{{use: {workload}, options: {{width: 64}}}}]

optimizations:                      # both: varies between cells; on, off: fixed. A path/to/file.py works too
  compile: both                     # torch.compile of model and optimizer step
  fused_optimizer: both             # one kernel for all parameters

design: factorial                   # every combination; also ladder, leave-one-out, add-one-in, or a list of arms
blocks: 5                           # fewer than five give no claims, one gives no interval

timing: {{epochs: 4, steps_per_epoch: 200, horizon_epochs: 50}}
training: {{batch_size: 64, optimizer: {{name: adam}}, schedule: linear}}
equivalence: {{arms: [full]}}         # is the training with everything on the same as eager, step by step?
device: auto
num_threads: 1                      # the rest of the machine keeps its cores, so its noise disturbs less
"""


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (init, schema):
        app.command()(command)


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write the spec.")] = FIRST_SPEC,
    workload: Annotated[
        Path | None, typer.Option("--workload", help="Write a workload of your own too, and a spec for it.")
    ] = None,
) -> None:
    """Write a commented spec to start from, and with --workload a model with its data in one file, to change."""
    texts = {file: STARTER.format(name=_on_one_line(file))}
    if workload is not None:
        if workload.suffix != ".py" or not workload.stem.isidentifier():
            raise UserError(f"{workload} cannot be a workload; its name must be one of a Python file, such as mine.py")
        source = (resources.files("ablate.workloads") / "mlp.py").read_text(encoding="utf-8")
        there = _on_one_line(Path(os.path.relpath(workload, file.parent)))
        own = {workload: source.replace('"example/mlp"', f'"mine/{workload.stem}"')}
        texts = {**own, file: OWN.format(name=_on_one_line(file), workload=there)}
    existing = [str(path) for path in texts if path.exists()]
    if existing:
        raise UserError(f"{existing[0]} exists already; give another name")
    for place, text in texts.items():
        _write(place, text)
    print_line(f"wrote {' and '.join(map(str, texts))}; next: {shlex.join(['ablate', 'plan', str(file)])}")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; give a path in a folder that exists") from error


def _on_one_line(path: Path) -> str:
    return " ".join(shlex.quote(str(path)).splitlines())


def schema() -> None:
    """Print the JSON Schema of a spec, for editors that complete and check YAML."""
    from ablate.spec.models import json_schema

    print_json(json_schema())
