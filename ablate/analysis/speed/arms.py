"""Trials of a workload -> one summary per named cell: times, speed-up against eager, evidence, metric, flags."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from ablate.analysis.results.effects import Response
from ablate.analysis.results.quality import TrialRow
from ablate.analysis.results.speed import ArmSummary
from ablate.analysis.speed.effects import make_effect
from ablate.analysis.speed.evidence import flags
from ablate.analysis.trials.comparable import Layout, Trial, WorkloadTrials
from ablate.analysis.trials.responses import LogTimes, seconds_of
from ablate.core.cell import DesignedCell
from ablate.core.contrast import Contrast
from ablate.core.record import TrialRecord


def make_arms(layout: Layout, trials: WorkloadTrials, responses: Mapping[Response, LogTimes]) -> list[ArmSummary]:
    """Summarize every named cell of a workload, in the order of the design."""
    eager = layout.key_of("eager")
    return [_summary(key, *arm, eager, trials, responses) for key, arm in layout.arms.items()]


def make_rows(trials: WorkloadTrials) -> list[TrialRow]:
    """List every planned trial and what became of it, earlier attempts included."""
    rows = []
    for planned in trials.planned:
        place = planned.block, planned.cell.effective_key
        blank = TrialRow(
            block=planned.block,
            order=planned.order,
            name=planned.cell.name,
            effective_key=planned.cell.effective_key,
            slug=planned.slug,
            status="not run",
        )
        rows += [replace(_row(blank, t), superseded=True) for t in trials.earlier if t.place == place]
        rows.append(_row(blank, trials.ended[place]) if place in trials.ended else blank)
    return rows


def _summary(
    key: str,
    cell: DesignedCell,
    names: tuple[str, ...],
    eager: str | None,
    trials: WorkloadTrials,
    responses: Mapping[Response, LogTimes],
) -> ArmSummary:
    usable = [trial.record for (_, k), trial in sorted(trials.usable.items()) if k == key]
    contrast = None
    if eager is not None and key != eager:
        contrast = Contrast(kind="total", subject=names[0], weights={eager: 1.0, key: -1.0})
    comparable = [] if trials.not_comparable else usable
    metric = next((r.metric for r in usable if r.metric is not None), None)
    times = {
        response: middle(
            seconds_of(trial.record.times, response)
            for (block, k), trial in trials.usable.items()
            if k == key and block in log.blocks and not trials.not_comparable
        )
        for response, log in responses.items()
    }
    return ArmSummary(
        arm=names[0],
        aliases=names[1:],
        effective_key=key,
        execution="compiled" if cell.compiles else "eager",
        on=cell.on,
        num_trials=len(usable),
        steady_s=times.get("steady"),
        horizon_cold_s=times.get("horizon_cold"),
        horizon_warm_s=times.get("horizon_warm"),
        versus_eager={r: make_effect(contrast, trials, log) for r, log in responses.items()} if contrast else {},
        counters=_mean_counters(usable),
        compile_cold_s=_compile_s(comparable, "cold"),
        compile_warm_s=_compile_s(comparable, "warm"),
        peak_memory_gib=middle(r.peak_device_memory_gib or r.peak_memory_gib for r in usable),
        metric=middle(r.metric.value if r.metric else None for r in usable),
        metric_name=metric.name if metric else "",
        metric_unit=metric.unit if metric else "",
        final_loss=middle(r.final_loss for r in usable),
        flags=tuple(dict.fromkeys(flag for r in usable for flag in flags(r))),
    )


def _mean_counters(records: Sequence[TrialRecord]) -> dict[str, float]:
    names = dict.fromkeys(name for r in records for name in r.evidence.counters)
    return {name: fmean(r.evidence.counters[name] for r in records if name in r.evidence.counters) for name in names}


def _compile_s(records: Sequence[TrialRecord], state: str) -> float | None:
    return middle(r.times.compile_s for r in records if r.times is not None and r.cache_state == state)


def middle(values: Iterable[float | None]) -> float | None:
    """Median of the values that are there; None when none is."""
    present = [value for value in values if value is not None]
    return median(present) if present else None


def _row(blank: TrialRow, trial: Trial) -> TrialRow:
    record, times = trial.record, trial.record.times
    waits = times.loader_wait_s if times else ()
    return replace(
        blank,
        slug=trial.folder.name,
        status=record.status,
        reason=record.failure.reason if record.failure else "",
        attempt=record.identity.attempt,
        cache=record.cache_state,
        steady_s=times.steady_s if times else None,
        horizon_s=times.horizon_s if times else None,
        startup_s=times.startup_s if times else None,
        compile_s=times.compile_s if times else None,
        loader_wait_s=sum(waits) if waits else None,
        final_loss=record.final_loss,
        metric=record.metric.value if record.metric else None,
        peak_memory_gib=record.peak_memory_gib,
        flags=flags(record),
    )
