"""One trial that ended -> the same trial trained once more, outside of its study, with a cold compile cache."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ablate.core.errors import UserError
from ablate.core.record import TrialRecord
from ablate.core.request import TrialRequest
from ablate.records.store import read_json, read_record, read_study
from ablate.run.devices import pick_device
from ablate.run.ledger.lock_owner import LockOwner, describe_wait
from ablate.run.process.child import TRAIN_COMMAND, run_child
from ablate.run.process.launch import REQUEST_NAME, Launch
from ablate.run.progress import Progress


def find_record_folder(trial: str, runs: Path) -> Path:
    """Find the record folder of a trial, given that folder, a slug or the start of one, or a key.

    Raises:
        UserError: none or several trials fit.
    """
    if (Path(trial) / "record.json").exists():
        return Path(trial).resolve()
    folders = sorted(path.parent for path in runs.glob("*/records/*/record.json"))
    exact = [folder for folder in folders if folder.name == trial]
    found = exact or [folder for folder in folders if folder.name.startswith(trial) or _key_of(folder) == trial]
    if len(found) == 1:
        return found[0].resolve()
    if not found:
        raise UserError(f"no ended trial under {runs} is called {trial!r}; `ablate status SPEC --json` lists the slugs")
    names = ", ".join(str(folder) for folder in found[:5])
    raise UserError(f"{len(found)} trials fit {trial!r} ({names}); give the folder of one of them")


def rerun_trial(
    record_folder: Path, target: Path, progress: Progress, command: Sequence[str] | None = None
) -> TrialRecord:
    """Train one trial again as its study did, into a new folder; the study's own record stays as it is.

    Args:
        record_folder: Folder of the ended trial; it holds the request that its process got.
        target: New folder for the record.
        progress: Where progress is shown.
        command: Program that trains.

    Raises:
        UserError: the target is not empty, the trial was never started, or the eager reference of a parity trial is
            gone.
    """
    request_path = record_folder / REQUEST_NAME
    if not request_path.exists():
        raise UserError(f"{record_folder} has no {REQUEST_NAME}: this trial was never started")
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty; give a new folder")
    stored = read_json(request_path, TrialRequest)
    reference = stored.reference_folder
    if reference is not None and not (Path(reference) / "record.json").exists():
        raise UserError(f"its eager reference {reference} is gone; `ablate run SPEC` trains that one again")
    target = target.resolve()
    target.mkdir(parents=True, exist_ok=True)
    study = read_study(Path(stored.study_json))
    device = pick_device(study.device)
    request = replace(
        stored,
        record_folder=str(target),
        cache_state="not-compiled" if stored.recipe.execution == "eager" else "cold",
        device_index=device.index,
    )
    told: set[str] = set()

    def tell(owner: LockOwner) -> None:
        text = describe_wait(owner, root=target, device=device.name)
        if text not in told:
            told.add(text)
            progress.note(text)

    with device.lock(tell) as lock:
        progress.trial_started(1, 1, request.trial, request.cache_state)
        launch = Launch(
            study=study,
            request=request,
            command=tuple(command or TRAIN_COMMAND),
            compile_cache=target / "compile-cache",
            visible_gpu=device.visible,
            owner=LockOwner.here(study=study.name, root=target),
            locks=(lock,),
            on_event=progress.trial_event,
        )
        record = run_child(launch)
    progress.trial_ended(record)
    return record


def _key_of(folder: Path) -> str:
    return read_record(folder).identity.key
