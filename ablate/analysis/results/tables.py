"""Results -> CSV tables in `tables/`, one file per kind of row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ablate.analysis.results.effects import Effect, Precision
from ablate.analysis.results.speed import ArmSummary, EvidenceVerdict
from ablate.analysis.results.study import Results, WorkloadResults
from ablate.analysis.results.training import Deviation
from ablate.analysis.words.speed import evidence_reason, why_not_reported
from ablate.analysis.words.training import margin_note
from ablate.core.serialize import to_dict
from ablate.core.units import percent_from_log


def write_tables(results: Results, folder: Path) -> dict[str, Path]:
    """Write every table; returns the files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    tables: Mapping[str, Callable[[WorkloadResults], Iterable[Mapping[str, Any]]]] = {
        "arms": lambda w: map(_arm_row, w.speed.arms),
        "effects": lambda w: (_effect_row(e, w.speed.verdict(e.subject)) for e in w.speed.effects),
        "evidence": lambda w: (row for verdict in w.speed.evidence for row in _evidence_rows(verdict)),
        "claims": lambda w: map(to_dict, w.speed.claims),
        "break-even": lambda w: map(to_dict, w.speed.break_even),
        "ledger": lambda w: map(to_dict, w.speed.ledger),
        "curve-distances": lambda w: map(to_dict, w.training.distances),
        "training": lambda w: map(_flat, w.training.verdicts),
        "training-windows": lambda w: map(to_dict, w.training.windows),
        "training-margins": lambda w: (_flat(row) | {"note": margin_note(row)} for row in w.training.margins),
        "training-deviations": lambda w: (row for d in w.training.deviations for row in _deviation_rows(d)),
        "agreement": lambda w: map(to_dict, w.training.agreement),
        "untested": lambda w: ({"text": text} for text in w.training.untested),
        "trials": lambda w: map(_flat, w.quality.trials),
        "identities": lambda w: map(to_dict, w.speed.identities),
        "sensitivity": lambda w: map(to_dict, w.speed.sensitivity),
        "order-ranges": lambda w: map(_flat, w.speed.order_ranges),
        "run-order": lambda w: [to_dict(w.quality.run_order)] if w.quality.run_order else [],
        "precision": lambda w: map(_precision_row, w.speed.precision),
        "stability": lambda w: map(to_dict, w.quality.stability),
        "fold-over": lambda w: map(_flat, w.speed.fold_over),
        "findings": lambda w: map(to_dict, w.quality.findings),
        "recompilations": lambda w: map(to_dict, w.speed.recompilations),
    }
    files = {}
    for name, rows_of in tables.items():
        rows = [{"workload": w.name} | dict(row) for w in results.workloads for row in rows_of(w)]
        files[name] = folder / f"{name}.csv"
        pd.DataFrame(rows).to_csv(files[name], index=False, lineterminator="\n")
    return files


def _effect_row(effect: Effect, evidence: EvidenceVerdict | None) -> dict[str, Any]:
    est = effect.estimate
    low, high = est.interval or (None, None) if est else (None, None)
    low_all, high_all = est.simultaneous or (None, None) if est else (None, None)
    return {
        "response": effect.response,
        "kind": effect.kind,
        "subject": effect.subject,
        "effect_log": est.effect if est else 0.0 if effect.inert else None,
        "speedup": est.speedup if est else 1.0 if effect.inert else None,
        "percent_faster": percent_from_log(est.effect) if est else 0.0 if effect.inert else None,
        "low": low,
        "high": high,
        "low_simultaneous": low_all,
        "high_simultaneous": high_all,
        "p_holm": est.p_holm if est else None,
        "num_blocks": len(est.blocks) if est else 0,
        "grade": est.grade if est else "",
        "share_of_total": effect.share,
        "claimed": effect.claimed,
        "inert": effect.cause if effect.inert else None,
        "refused": why_not_reported(effect) if effect.refused else None,
        "assumes": effect.assumes,
        "dropped": " | ".join(effect.dropped),
        "emulation": evidence.emulation if evidence else "",
    }


def _precision_row(row: Precision) -> dict[str, Any]:
    needed = {f"blocks_for_{n.half_width:g}": n.blocks for n in row.blocks_needed}
    return {k: v for k, v in to_dict(row).items() if k != "blocks_needed"} | needed


def _arm_row(arm: ArmSummary) -> dict[str, Any]:
    row = {k: v for k, v in _flat(arm).items() if k not in ("versus_eager", "counters")}
    for response, effect in arm.versus_eager.items():
        row[f"speedup_{response}"] = effect.estimate.speedup if effect.estimate else None
    return row | dict(arm.counters)


def _evidence_rows(verdict: EvidenceVerdict) -> list[dict[str, Any]]:
    base = {"optimization": verdict.optimization, "verdict": verdict.verdict, "reason": evidence_reason(verdict)}
    last = {"emulation": verdict.emulation}
    return [base | to_dict(result) | last for result in verdict.expectations] or [base | last]


def _deviation_rows(deviation: Deviation) -> Iterable[dict[str, Any]]:
    """One row per step of a window."""
    for index, step in enumerate(deviation.steps):
        yield {
            "arm": deviation.arm,
            "block": deviation.block,
            "window": deviation.window,
            "step": step,
            "deviation": deviation.deviation[index],
            "envelope": deviation.envelope[index],
            "tested": index < deviation.num_tested,
        }


def _flat(row: Any) -> dict[str, Any]:
    """A frozen row with its lists as text."""
    return {
        key: " | ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for key, value in to_dict(row).items()
    }
