"""A study and workers that are started elsewhere -> the study trained by them, this process only looks on."""

import time
from collections.abc import Callable, Sequence

from ablate.core.cell import Design, PlannedTrial
from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.disk import explain_disk_errors
from ablate.files.paths import StudyPaths
from ablate.records.store import read_record
from ablate.run.executors.base import WorkerPool
from ablate.run.ledger.ledger import Ledger
from ablate.run.ledger.open import find_address, open_store
from ablate.run.ledger.trial_queue import block_of, find_environments
from ablate.run.options import DEFAULTS, RunOptions
from ablate.run.outcome import RunOutcome, summarize
from ablate.run.plan.plan import select_parity, select_trials
from ablate.run.plan.stored_study import store_plan
from ablate.run.process.signals import stop_signals_interrupt, stop_signals_wait
from ablate.run.progress import Progress

LOOK_S = 1.0


def coordinate(
    study: Study,
    design: Design,
    paths: StudyPaths,
    progress: Progress,
    start: Callable[[], WorkerPool],
    options: RunOptions = DEFAULTS,
) -> RunOutcome:
    """Enqueue the trials of a study, start workers and wait until they are done.

    Args:
        study: The study.
        design: Cells and trials.
        paths: Where everything goes; the workers reach it under the same path.
        progress: Where progress is shown.
        start: Starts the workers.
        options: Its `retry_failed` reaches blocks of which no trial completed: only these fit any worker, and which
            environment the workers will have is not known here.

    Raises:
        UserError: all workers have ended and trials are left, with what the workers said.
    """
    started = time.monotonic()
    wanted = (*select_trials(study, design, options.workloads), *select_parity(study, design, options.workloads))
    with explain_disk_errors(paths.root, " with --runs"), stop_signals_interrupt():
        store_plan(study, design, paths)
        ledger = Ledger(study, paths, store=open_store(study, paths, address=find_address(study, options.ledger)))
        try:
            ledger.enqueue(wanted)
            if options.retry_failed:
                _retry_failed(ledger, paths, wanted, progress)
        finally:
            ledger.close()
        before = {trial.key for trial in wanted if _has_ended(paths, trial)}
        pool: WorkerPool | None = None
        interrupted = False
        try:
            with stop_signals_wait():  # until there is somebody to stop
                pool = start()
            _watch(pool, paths, wanted, progress)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if pool is not None:
                pool.stop()
        trained = [trial for trial in wanted if trial.key not in before and _has_ended(paths, trial)]
        return summarize(paths, wanted, trained, interrupted, time.monotonic() - started)


def _retry_failed(ledger: Ledger, paths: StudyPaths, wanted: Sequence[PlannedTrial], progress: Progress) -> None:
    """Enqueue next attempts of failed trials in blocks that fit any worker, and name the blocks that are omitted."""
    retried: list[PlannedTrial] = []
    omitted: list[str] = []
    for block in dict.fromkeys(block_of(trial) for trial in wanted):
        inside = [trial for trial in wanted if block_of(trial) == block]
        ended = [trial for trial in inside if _has_ended(paths, trial)]
        failed = [trial for trial in ended if not read_record(paths.records / trial.slug).completed]
        there = next(find_environments(paths, (trial.slug for trial in ended)), None)
        if there is None:
            retried += failed
        elif failed:
            omitted.append(f"{block} ({there['host']})")
    ledger.enqueue(retried, retry_failed=True)
    if omitted:
        progress.note(
            "failed trials of blocks that have completed ones are not tried again by workers of an executor: "
            f"{'; '.join(omitted)}; a block never mixes environments, so use --retry-failed without --executor there"
        )


def _watch(pool: WorkerPool, paths: StudyPaths, wanted: Sequence[PlannedTrial], progress: Progress) -> None:
    told = ""
    while True:
        running, ended = pool.running(), sum(_has_ended(paths, trial) for trial in wanted)
        text = f"{ended} of {len(wanted)} trials have ended; {running} workers"
        if text != told:
            told = text
            progress.note(text)
        if not running:
            break
        time.sleep(LOOK_S)
    problems = pool.problems()
    for problem in problems:
        progress.note(problem)
    if ended < len(wanted):
        said = "; ".join(dict.fromkeys(problems)) or "they were told to stop"
        raise UserError(
            f"all workers have ended and {len(wanted) - ended} of {len(wanted)} trials are left ({said}); run again to "
            "go on, every finished trial is kept"
        )


def _has_ended(paths: StudyPaths, trial: PlannedTrial) -> bool:
    return (paths.records / trial.slug / "record.json").exists()
