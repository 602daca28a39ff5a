"""Trials with cold, warm, unlike and shared compile caches -> the times that a study reports."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.analysis.results.study import WorkloadResults
from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.core.study import ExplicitCell, Study
from builders import make_factors, make_study
from simulated import analyzed

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")
ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))


def results_of(tmp_path: Path, study: Study, **simulation: Any) -> WorkloadResults:
    [results] = analyzed(tmp_path, study, **simulation).workloads
    return results


def steady(results: WorkloadResults, kind: str, subject: str = "") -> Any:
    return results.speed.effect("steady", kind, subject)  # type: ignore[arg-type]


def test_cold_block_and_warm_blocks_are_two_responses(tmp_path: Path) -> None:
    results = results_of(tmp_path, make_study(blocks=3, factors=make_factors(THREE)))
    blocks = {e.response: e.estimate.blocks for e in results.speed.effects if e.kind == "total" and e.estimate}
    assert blocks == {"steady": (0, 1, 2), "horizon_cold": (0,), "horizon_warm": (1, 2)}
    # naive: 2 forward + 2 step compiles of 20 s cold; full: 1 + 1; tensor_lr alone saves 20 of 80 s
    full, naive = results.speed.named_arms["full"], results.speed.named_arms["naive"]
    assert (naive.compile_cold_s, full.compile_cold_s, full.compile_warm_s) == (80.0, 40.0, 12.0)
    total = results.speed.effect("horizon_cold", "total")
    assert total is not None and total.estimate is not None
    assert total.estimate.effect == pytest.approx(math.log(80.4 / 120.4), abs=1e-12)


def test_mixed_cache_states_omit_a_block_from_the_horizon(tmp_path: Path) -> None:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        retried = planned.block == 0 and planned.cell.name == "full"
        return replace(record, cache_state="warm") if retried else record

    results = results_of(tmp_path, make_study(blocks=2, factors=make_factors(THREE)), change=change)
    assert {e.response for e in results.speed.effects} == {"steady", "horizon_warm"}
    assert any(f.kind == "omitted" and f.text.startswith("block 0") for f in results.quality.findings)
    assert steady(results, "total").estimate.blocks == (0, 1)


def test_shared_cache_reports_no_horizon(tmp_path: Path) -> None:
    results = results_of(tmp_path, make_study(compile_cache="shared", factors=make_factors(THREE)))
    assert {e.response for e in results.speed.effects} == {"steady"}
    assert [f.kind for f in results.quality.findings] == ["refused"]
