"""`ablate init` and `ablate schema`: a first spec, and what editors need to complete it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ablate.cli.terminal import print_json, print_line
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


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (init, schema):
        app.command()(command)


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("study.yaml"),
) -> None:
    """Write a commented spec to start from."""
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(STARTER.format(name=" ".join(shlex.quote(str(file)).splitlines())))
    except FileExistsError as error:
        raise UserError(f"{file} exists already; give another name") from error
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}; give a path in a folder that exists") from error
    print_line(f"wrote {file}; next: {shlex.join(['ablate', 'plan', str(file)])}")


def schema() -> None:
    """Print the JSON Schema of a spec, for editors that complete and check YAML."""
    from ablate.spec.models import json_schema

    print_json(json_schema())
