"""`python -m ablate.train trial REQUEST.json` trains one cell; `prepare STUDY.json` makes its data and graph.

`probe REQUEST.json` trains a few untimed steps for a diagnosis.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("TQDM_DISABLE", "1")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", message=".*configure_optimizers.*")


def main(arguments: list[str]) -> int:
    """Dispatch; returns the exit code: 0 also for a trial that failed and was recorded, 1 for a user error."""
    from ablate.core.errors import AblateError, DiskError
    from ablate.core.request import EXIT_DISK
    from ablate.files.disk import explain_disk_errors

    if len(arguments) != 2 or arguments[0] not in ("trial", "prepare", "probe"):
        print(__doc__, file=sys.stderr)
        return 1
    try:
        with explain_disk_errors(Path(arguments[1]).parent):
            _dispatch(arguments[0], Path(arguments[1]))
    except AblateError as error:
        print(error, file=sys.stderr)
        return EXIT_DISK if isinstance(error, DiskError) else 1
    return 0


def _dispatch(command: str, path: Path) -> None:
    if command == "prepare":
        _prepare(path)
    elif command == "probe":
        _probe(path)
    else:
        _trial(path)


def _trial(request_json: Path) -> None:
    # Imports make a million objects that stay; looking for cycles among them again and again takes a fifth of the time.
    gc.disable()
    import ablate.workloads.relational.gnn  # noqa: F401 -- what every workload's file imports when it is asked to build
    from ablate.core.request import TrialRequest
    from ablate.records.store import read_json
    from ablate.train.trial import execute_trial

    gc.enable()
    gc.collect()  # they are old from here on, as they would be otherwise; frozen, later collections would be too cheap
    execute_trial(read_json(request_json, TrialRequest))


def _prepare(study_json: Path) -> None:
    from ablate.records.store import read_study
    from ablate.workloads.relational.data.graph_cache import find_ready_graph

    study = read_study(study_json)
    print(f"data: {study.data.dataset} {study.data.scale or ''}".rstrip(), flush=True)
    if (ready := find_ready_graph(study.data)) is not None:
        print(f"graph {ready[:12]}: ready", flush=True)
        return
    from ablate.workloads.relational.data.graph import load_graph  # imports torch

    graph = load_graph(study.data, lambda sentence: print(sentence, flush=True))
    sizes = ", ".join(f"{name} {graph.data[name].num_nodes:,}" for name in graph.data.node_types)
    print(f"graph {graph.digest[:12]}: {sizes}", flush=True)


def _probe(request_json: Path) -> None:
    from ablate.core.request import ProbeRequest
    from ablate.records.store import read_json
    from ablate.train.probe import execute_probe

    execute_probe(read_json(request_json, ProbeRequest))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # everything is written; taking the interpreter's million objects apart takes a second or two
