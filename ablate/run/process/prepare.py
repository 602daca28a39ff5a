"""A study -> its data made ready on disk by a child process, so that no trial spends its time on that."""

import os
import signal
import subprocess
from collections.abc import Sequence

from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.locks import FileLock
from ablate.files.paths import StudyPaths
from ablate.run.ledger.lock_owner import PREPARING, LockOwner
from ablate.run.process.launch import child_environment
from ablate.run.process.missing_record import last_error_line, read_tail
from ablate.run.process.signals import stop_signals_wait
from ablate.run.progress import Progress


def prepare_data(
    study: Study, paths: StudyPaths, command: Sequence[str], progress: Progress, lock: FileLock, visible_gpu: str
) -> None:
    """Make or check the data of the study in a child, with its output shown as progress.

    Args:
        study: The study.
        paths: Its files; `study.json` must be written.
        command: Program; `prepare STUDY.json` is added.
        progress: Where output lines are shown.
        lock: The held device lock, inherited by the child: preparing data must not disturb another study's trial.
        visible_gpu: Value of `CUDA_VISIBLE_DEVICES`.

    Raises:
        UserError: it failed, with the reason that it gave.
    """
    environment = child_environment(
        os.environ,
        compile_cache=paths.compile_cache / "prepare",
        recipe_environment={},
        num_threads=None,
        visible_gpu=visible_gpu,
    )
    errors = paths.root / "prepare-errors.txt"
    process = None
    try:
        with stop_signals_wait(), errors.open("wb") as stream:
            process = subprocess.Popen(
                [*command, "prepare", str(paths.study_json)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=environment,
                cwd=paths.root,
                pass_fds=(lock.descriptor,),
                start_new_session=True,
                text=True,
                errors="replace",
            )
        owner = LockOwner.here(study=study.name, root=paths.root)
        lock.describe(owner.training(PREPARING, process.pid).to_json())
        last = _show_output(process, progress)
    finally:
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        said = last_error_line(read_tail(errors)) or last or f"exit code {process.returncode}"
        raise UserError(f"the data of study {study.name} could not be prepared: {said} (more in {errors})")


def _show_output(process: subprocess.Popen[str], progress: Progress) -> str:
    """Show what the process prints until it ends; returns the last line."""
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip():
            last = line.strip()
            progress.note(last)
    process.wait()
    return last
