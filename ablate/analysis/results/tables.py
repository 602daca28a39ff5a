"""Results -> CSV tables in `tables/`, one file per kind of row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ablate.analysis.results.study import ArmSummary, Deviation, Effect, EvidenceVerdict, Precision, Results
from ablate.analysis.words.speed import why_not_reported
from ablate.analysis.words.training import margin_note
from ablate.core.serialize import to_dict
from ablate.core.units import percent_from_log


def write_tables(results: Results, folder: Path) -> dict[str, Path]:
    """Write every table; returns the files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = {factor.name: factor.emulation or "" for factor in results.study.factors}
    tables: Mapping[str, Iterable[Mapping[str, Any]]] = {
        "arms": map(_arm_row, results.arms),
        "effects": (_effect_row(e) | {"emulation": labels.get(e.subject, "")} for e in results.effects),
        "evidence": (
            row | {"emulation": labels.get(verdict.optimization, "")}
            for verdict in results.evidence
            for row in _evidence_rows(verdict)
        ),
        "claims": map(to_dict, results.claims),
        "break-even": map(to_dict, results.break_even),
        "ledger": map(to_dict, results.ledger),
        "curve-distances": map(to_dict, results.curve_distances),
        "training": map(_flat, map(to_dict, results.training)),
        "training-windows": map(to_dict, results.windows),
        "training-margins": (_flat(to_dict(row)) | {"note": margin_note(row)} for row in results.margin_tests),
        "training-deviations": (row for d in results.deviations for row in _deviation_rows(d)),
        "agreement": map(to_dict, results.agreement),
        "untested": map(to_dict, results.untested),
        "trials": map(_flat, map(to_dict, results.trials)),
        "identities": map(to_dict, results.identities),
        "sensitivity": map(to_dict, results.sensitivity),
        "order-ranges": map(_flat, map(to_dict, results.order_ranges)),
        "run-order": map(to_dict, results.run_order),
        "precision": map(_precision_row, results.precision),
        "stability": map(to_dict, results.stability),
        "fold-over": map(_flat, map(to_dict, results.fold_over)),
        "findings": map(to_dict, results.findings),
        "recompilations": map(to_dict, results.recompilations),
    }
    files = {}
    for name, rows in tables.items():
        files[name] = folder / f"{name}.csv"
        pd.DataFrame(list(rows)).to_csv(files[name], index=False, lineterminator="\n")
    return files


def _effect_row(effect: Effect) -> dict[str, Any]:
    est = effect.estimate
    low, high = est.interval or (None, None) if est else (None, None)
    low_all, high_all = est.simultaneous or (None, None) if est else (None, None)
    return {
        "workload": effect.workload,
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
    }


def _precision_row(row: Precision) -> dict[str, Any]:
    needed = {f"blocks_for_{n.half_width:g}": n.blocks for n in row.blocks_needed}
    return {k: v for k, v in to_dict(row).items() if k != "blocks_needed"} | needed


def _arm_row(arm: ArmSummary) -> dict[str, Any]:
    row = _flat({k: v for k, v in to_dict(arm).items() if k not in ("versus_eager", "counters")})
    for response, effect in arm.versus_eager.items():
        row[f"speedup_{response}"] = effect.estimate.speedup if effect.estimate else None
    return row | dict(arm.counters)


def _evidence_rows(verdict: EvidenceVerdict) -> list[dict[str, Any]]:
    base = {
        "workload": verdict.workload,
        "optimization": verdict.optimization,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
    }
    return [base | to_dict(result) for result in verdict.expectations] or [base]


def _deviation_rows(deviation: Deviation) -> Iterable[dict[str, Any]]:
    """One row per step of a window."""
    for index, step in enumerate(deviation.steps):
        yield {
            "workload": deviation.workload,
            "arm": deviation.arm,
            "block": deviation.block,
            "window": deviation.window,
            "step": step,
            "deviation": deviation.deviation[index],
            "envelope": deviation.envelope[index],
            "tested": index < deviation.num_tested,
        }


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: " | ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for key, value in row.items()
    }
