"""Missing trials and the records of ended ones -> an estimate of the wall time, and where it comes from."""

import math
from collections.abc import Sequence
from datetime import datetime
from statistics import fmean

from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.core.study import Study

START_S = 15.0  # process, data and graph
PROCESS_START_S = 5.0  # of that, before the first time stamp of a record: Python and its imports
COMPILE_S = {"inductor": (75.0, 25.0), "aot_eager": (25.0, 25.0), "eager": (8.0, 8.0)}  # cold, from a warm cache
STEP_S = {"cpu": 0.25, "cuda": 0.05}
REFERENCE_CHANNELS, REFERENCE_BATCH = 128, 256


def estimate(study: Study, missing: Sequence[PlannedTrial], records: Sequence[TrialRecord]) -> tuple[float, str]:
    """Estimate the wall time of missing trials.

    Args:
        study: Gives sizes for the rule of thumb.
        missing: Trials without a record.
        records: Ended trials of the study; completed ones of the same workload, execution mode and purpose give the
            estimate.

    Returns:
        Seconds, and the sentence that says where they come from.
    """
    seen: dict[tuple[str, bool, str], list[float]] = {}
    for record in records:
        if record.completed:
            place = (record.identity.workload, record.compiles, record.identity.purpose)
            seen.setdefault(place, []).append(_seconds(record))
    total, guessed = 0.0, 0
    for trial in missing:
        times = seen.get((trial.workload, trial.cell.compiles, trial.purpose))
        total += fmean(times) if times else rule_of_thumb_s(study, trial)
        guessed += times is None
    if not missing:
        return 0.0, "nothing is missing"
    if not guessed:
        purposes = {trial.purpose for trial in missing}
        num_seen = sum(len(times) for place, times in seen.items() if place[2] in purposes)
        return total, f"from {num_seen} finished trials of this study, {PROCESS_START_S:.0f} s to start each process"
    step_s = _step_s(study, missing[0].workload)
    assumption = f"assumed, not measured: {START_S:.0f} s to start a trial, {step_s:.3g} s a step"
    cold_s, warm_s = COMPILE_S[study.compile_backend]
    if any(trial.cell.compiles for trial in missing):
        assumption += f", {cold_s:.0f} s to compile" + (
            f", {warm_s:.0f} s from a warm cache" if warm_s < cold_s else ""
        )
    part = f"; for {guessed} of {len(missing)} trials, the others from finished ones"
    return total, assumption + (part if guessed < len(missing) else "")


def rule_of_thumb_s(study: Study, trial: PlannedTrial) -> float:
    """Wall time of one trial when nothing was measured yet: start, steps and, when it compiles, the compiler."""
    steps_s = num_steps(study, trial) * _step_s(study, trial.workload)
    if not trial.cell.compiles:
        return START_S + steps_s
    is_warm = study.compile_cache == "shared" or (study.compile_cache == "per-cell" and trial.block > 0)
    return START_S + steps_s + COMPILE_S[study.compile_backend][is_warm]


def num_steps(study: Study, trial: PlannedTrial) -> int:
    """Steps that a trial trains.

    Timed, all of the study. Parity, those of its windows; the eager reference trains up to the end of the last one,
    and each window once more unperturbed and once per rerun.
    """
    total = study.timing.epochs * study.timing.steps_per_epoch
    if trial.purpose == "timed":
        return total
    ends = [min(start + study.equivalence.window_steps, total) for start in trial.windows]
    in_windows = sum(end - start for start, end in zip(trial.windows, ends, strict=True))
    if trial.reference is not None:
        return in_windows
    return max(ends) + (1 + study.equivalence.reruns) * in_windows


def _step_s(study: Study, workload: str) -> float:
    """Seconds a step, in proportion to width and batch from 128 channels and 256 seeds, with a floor for overhead."""
    channels = float(study.workload(workload).options.get("channels", REFERENCE_CHANNELS))
    size = channels * study.training.batch_size / (REFERENCE_CHANNELS * REFERENCE_BATCH)
    if study.device == "cpu":
        return max(0.02, STEP_S["cpu"] * size)
    return max(0.01, STEP_S["cuda"] * math.sqrt(size))


def _seconds(record: TrialRecord) -> float:
    """Wall time of an ended trial, the start of its process included."""
    start, end = datetime.fromisoformat(record.started_at), datetime.fromisoformat(record.ended_at)
    return PROCESS_START_S + max(0.0, (end - start).total_seconds())
