"""A study and its design -> one record per trial: claim, train in a child, tell, until nothing is missing."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ablate.core.cell import Design, PlannedTrial
from ablate.core.errors import DiskError, LostLeaseError, TrialError, UserError
from ablate.core.recipe import Recipe
from ablate.core.record import CacheState, Failure
from ablate.core.request import TrialRequest
from ablate.core.study import Study
from ablate.design.recipes import Appliers, compose_recipes, for_parity
from ablate.files.disk import explain_disk_errors
from ablate.files.locks import FileLock
from ablate.files.paths import StudyPaths
from ablate.files.stopwatch import Stopwatch
from ablate.plugins.digests import training_code
from ablate.records.store import read_record, write_record
from ablate.run.compile_cache import CompileCache, close_cache, open_cache
from ablate.run.devices import Device, describe_worker, pick_device
from ablate.run.ledger.ledger import Claim, Foreign, Held, Ledger
from ablate.run.ledger.lock_owner import LockOwner, describe_wait, end_overdue_orphan
from ablate.run.ledger.open import find_address, open_store
from ablate.run.options import DEFAULTS, RunOptions
from ablate.run.outcome import RunOutcome, summarize
from ablate.run.plan.plan import select_parity, select_trials
from ablate.run.plan.stored_study import store_plan
from ablate.run.process.child import TRAIN_COMMAND, find_reference, run_child
from ablate.run.process.launch import Launch
from ablate.run.process.prepare import prepare_data
from ablate.run.process.signals import stop_signals_interrupt, stop_signals_wait
from ablate.run.progress import Progress

OnTrial = Callable[[Path], None]


def run_study(
    study: Study,
    design: Design,
    paths: StudyPaths,
    progress: Progress,
    options: RunOptions = DEFAULTS,
    *,
    on_trial: OnTrial | None = None,
    command: Sequence[str] | None = None,
    appliers: Appliers | None = None,
    device: Device | None = None,
) -> RunOutcome:
    """Train every trial of the design that has no record yet, the parity trials after all timed ones.

    So nothing comes between the timed trials of a block, and a study that is cut short has its times.

    Args:
        study: The study; its hash must match the one stored in the folder, if any.
        design: Cells and trials.
        paths: Where everything goes.
        progress: Where progress is shown.
        options: What the user asks of it; who else trains is not looked at.
        on_trial: Called with the record folder after each trial, e.g. to track it; it must not raise.
        command: Program that trains (`trial REQUEST.json` or `prepare STUDY.json` is added).
        appliers: `apply` of each optimization by name; None looks them up in the registry.
        device: Device to train on; None picks the one that the study asks for.

    Raises:
        UserError: changed study, no such device, optimizations that contradict each other, data that cannot be
            prepared, or a folder that cannot be written.
        StoredDataError: the ledger or a record cannot be read.
    """
    started = time.monotonic()
    wanted = (*select_trials(study, design, options.workloads), *select_parity(study, design, options.workloads))
    with explain_disk_errors(paths.root, " with --runs"), stop_signals_interrupt():
        store_plan(study, design, paths)
        device = device or pick_device(study.device)
        runner = _Runner(
            study=study,
            paths=paths,
            progress=progress,
            wanted=wanted,
            recipes=compose_recipes(study, design, appliers),
            device=device,
            command=tuple(command or TRAIN_COMMAND),
            on_trial=on_trial or (lambda folder: None),
            git_commit=current_commit(Path.cwd()),
            worker=describe_worker(device, study),
            ledger=find_address(study, options.ledger),
        )
        interrupted = runner.run(options)
        return summarize(paths, wanted, runner.trained, interrupted, time.monotonic() - started)


@dataclass(kw_only=True)
class _Runner:
    study: Study
    paths: StudyPaths
    progress: Progress
    wanted: Sequence[PlannedTrial]
    recipes: Mapping[str, Recipe]
    device: Device
    command: tuple[str, ...]
    on_trial: OnTrial
    git_commit: str | None
    worker: Mapping[str, str]
    ledger: str | None
    trained: list[PlannedTrial] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)

    def run(self, options: RunOptions) -> bool:
        """Train what is missing; True when the user interrupted."""
        store = open_store(self.study, self.paths, address=self.ledger, worker=self.worker)
        ledger = Ledger(self.study, self.paths, store=store, worker=self.worker)
        try:
            ledger.enqueue(self.wanted, retry_failed=options.retry_failed, restart_blocks=options.restart_blocks)
            if options.retry_failed and (blocks := ledger.not_retried(self.wanted)):
                self.progress.note(explain_not_retried(blocks))
            if self._num_ended(self.wanted) < len(self.wanted):
                with self._device_lock() as lock:
                    prepare_data(self.study, self.paths, self.command, self.progress, lock, self.device.visible)
            self._train_all(ledger)
        except KeyboardInterrupt:
            return True
        finally:
            ledger.close()
        return False

    def _train_all(self, ledger: Ledger) -> None:
        while True:
            self._check_code()
            with self._device_lock() as lock:
                claim = ledger.claim(self.wanted)
                if isinstance(claim, Claim):
                    self._train(ledger, claim, lock)
                    continue
            if claim is None:
                return
            if isinstance(claim, Foreign):
                raise UserError(explain_foreign(claim))
            self._wait_for_trial(ledger, claim)

    def _check_code(self) -> None:
        """Stop when the code was edited: the next trial of this block would run other code than the first."""
        began, now = self.worker["code"], training_code()
        if now != began:
            raise UserError(
                f"the code that trials run was edited while this study ran (digest {began} before, {now} now); run "
                "again to go on: blocks that are begun keep their code, --restart-blocks trains them anew"
            )

    def _train(self, ledger: Ledger, claim: Claim, lock: FileLock) -> None:
        folder = self.paths.records / claim.trial.slug
        cache = None
        try:
            reference = find_reference(claim.trial, self.wanted, self.paths)
            machine = f"{self.worker['host']}, {self.worker['device']}"
            cache = open_cache(self.study.compile_cache, claim.trial, claim.attempt, self.paths, machine)
            self._tell_start(claim.trial, cache.state)
            record = run_child(self._launch(ledger, claim, cache, lock, folder, reference))
        except TrialError as error:
            self._refuse(ledger, claim, folder, str(error))
            return
        except LostLeaseError:
            if not _has_completed(folder):  # what it wrote when it was told to end is no result
                (folder / "record.json").unlink(missing_ok=True)
            raise
        except (KeyboardInterrupt, OSError, DiskError):
            with stop_signals_wait(), claim.lease:
                self._interrupt(ledger, claim, cache, folder)
            raise
        close_cache(cache, completed=record.completed)
        ledger.finish(claim, record)
        self.trained.append(claim.trial)
        self.progress.trial_ended(record)
        self.on_trial(folder)

    def _refuse(self, ledger: Ledger, claim: Claim, folder: Path, reason: str) -> None:
        """Record a trial that cannot be trained as failed; `--retry-failed` tries it again."""
        request = self._request(claim, "not-compiled", folder, None)
        record = replace(request.begin_record(self.study, Stopwatch().started_at), failure=Failure(reason=reason))
        write_record(folder, record)
        ledger.finish(claim, record)
        self._tell_start(claim.trial, request.cache_state)
        self.progress.trial_ended(record)
        self.on_trial(folder)

    def _interrupt(self, ledger: Ledger, claim: Claim, cache: CompileCache | None, folder: Path) -> None:
        """Keep a trial that completed in the last moment; otherwise forget that it started."""
        record = read_record(folder) if (folder / "record.json").exists() else None
        completed = record is not None and record.completed
        if cache is not None:
            close_cache(cache, completed=completed)
        if record is not None and completed:
            ledger.finish(claim, record)
            return
        (folder / "record.json").unlink(missing_ok=True)
        ledger.put_back(claim)

    def _request(self, claim: Claim, cache_state: CacheState, folder: Path, reference: Path | None) -> TrialRequest:
        trial, recipe = claim.trial, self.recipes[claim.trial.cell.cell.key]
        return TrialRequest(
            study_json=str(self.paths.study_json),
            trial=trial,
            recipe=for_parity(recipe) if trial.purpose == "parity" else recipe,
            attempt=claim.attempt,
            record_folder=str(folder),
            cache_state=cache_state,
            device_index=self.device.index,
            git_commit=self.git_commit,
            worker=self.worker,
            reference_folder=None if reference is None else str(reference),
        )

    def _launch(
        self, ledger: Ledger, claim: Claim, cache: CompileCache, lock: FileLock, folder: Path, reference: Path | None
    ) -> Launch:
        return Launch(
            study=self.study,
            request=self._request(claim, cache.state, folder, reference),
            command=self.command,
            compile_cache=cache.folder,
            visible_gpu=self.device.visible,
            owner=self._owner,
            locks=(*claim.leases, lock),
            on_event=self.progress.trial_event,
            parent_death=ledger.parent_death,
            is_lost=ledger.is_lost,
        )

    @property
    def _owner(self) -> LockOwner:
        return LockOwner.here(study=self.study.name, root=self.paths.root, device=self.device.name)

    def _device_lock(self) -> FileLock:
        lock = self.device.lock(lambda owner: self._tell_wait(owner, self.device.name))
        lock.describe(self._owner.to_json())
        return lock

    def _wait_for_trial(self, ledger: Ledger, held: Held) -> None:
        ledger.wait(held, lambda owner: self._tell_wait(owner, None))

    def _tell_wait(self, owner: LockOwner, device: str | None) -> None:
        text = describe_wait(owner, root=self.paths.root, device=device)
        if text not in self._told:
            self._told.add(text)
            self.progress.note(text)
        if end_overdue_orphan(owner):
            self.progress.note(f"ended trial {owner.trial}: it overran its time-out after its runner was gone")

    def _tell_start(self, trial: PlannedTrial, cache_state: CacheState) -> None:
        alike = [other for other in self.wanted if other.purpose == trial.purpose]
        others = [other for other in alike if other.key != trial.key]
        self.progress.trial_started(self._num_ended(others) + 1, len(alike), trial, cache_state)

    def _num_ended(self, trials: Sequence[PlannedTrial]) -> int:
        return sum((self.paths.records / trial.slug / "record.json").exists() for trial in trials)


def _has_completed(folder: Path) -> bool:
    return (folder / "record.json").exists() and read_record(folder).completed


def explain_foreign(foreign: Foreign) -> str:
    """Say why trials are left that this worker may not train."""
    return (
        f"what is left belongs to blocks that were begun in another environment: {_name_blocks(foreign.differences)}; "
        "a block never mixes them. Go on there, or train these blocks anew here with --restart-blocks"
    )


def explain_not_retried(blocks: Mapping[str, str]) -> str:
    """Say which failed trials `--retry-failed` leaves alone, and why."""
    return (
        f"failed trials of blocks that were begun in another environment are not tried again: {_name_blocks(blocks)}; "
        "a block never mixes them, so use --retry-failed there"
    )


def _name_blocks(differences: Mapping[str, str]) -> str:
    return "; ".join(f"{block} ({difference})" for block, difference in differences.items())


def current_commit(folder: Path) -> str | None:
    """Commit of the git working tree around `folder`, with `-dirty` when it has changes; None outside of one."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
