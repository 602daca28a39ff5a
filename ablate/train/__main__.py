"""`python -m ablate.train trial REQUEST.json` trains one cell; `prepare STUDY.json` makes its data.

`probe REQUEST.json` trains a few untimed steps for a diagnosis.
"""

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

    commands = {"trial": _trial, "prepare": _prepare, "probe": _probe}
    if len(arguments) != 2 or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 1
    try:
        with explain_disk_errors(Path(arguments[1]).parent):
            commands[arguments[0]](Path(arguments[1]))
    except AblateError as error:
        print(error, file=sys.stderr)
        return EXIT_DISK if isinstance(error, DiskError) else 1
    return 0


def _trial(request_json: Path) -> None:
    # Imports make a million objects that stay; looking for cycles among them again and again takes a fifth of the time.
    gc.disable()  # until the workload is built, which imports what it needs
    from ablate.core.request import TrialRequest
    from ablate.records.store import read_json
    from ablate.train.trial import execute_trial

    execute_trial(read_json(request_json, TrialRequest))


def _prepare(study_json: Path) -> None:
    from ablate.core.serialize import from_dict
    from ablate.plugins.registry import find_module
    from ablate.records.store import read_study

    said: set[str] = set()

    def say(sentence: str) -> None:
        if sentence not in said:  # workloads that share their data say the same of it
            said.add(sentence)
            print(sentence, flush=True)

    for choice in read_study(study_json).workloads:
        module = find_module("workloads", choice.name, choice.path)
        if hasattr(module, "prepare"):
            module.prepare(from_dict(module.INFO.options, choice.options), say)


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
