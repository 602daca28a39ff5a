"""Simulated studies with known effects -> results that recover them, and refuse what may not be said."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.analysis.analyze import analyze, read_results
from ablate.analysis.results.effects import RESPONSES
from ablate.analysis.results.study import WorkloadResults
from ablate.core.errors import StoredDataError, UserError
from ablate.core.study import Claim, ExplicitCell, Factor, Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.optimizations.beyond import compile_forward
from builders import make_factors, make_study, make_workloads
from simulated import analyzed, make_records, write_study_folder

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")
ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))


def results_of(tmp_path: Path, study: Study, **simulation: Any) -> WorkloadResults:
    [results] = analyzed(tmp_path, study, **simulation).workloads
    return results


def steady(results: WorkloadResults, kind: str, subject: str = "") -> Any:
    return results.speed.effect("steady", kind, subject)  # type: ignore[arg-type]


def test_recovers_the_effects_it_was_given(tmp_path: Path) -> None:
    effects = {"compile": 0.10, "dynamic_shapes": 0.05, "tensor_lr": -0.02, "sync_free": 0.03}
    results = results_of(tmp_path, make_study(blocks=2), effects=effects)
    for name in THREE:
        assert steady(results, "optimization", name).estimate.effect == pytest.approx(effects[name], abs=1e-12)
    assert steady(results, "compile").estimate.effect == pytest.approx(0.10, abs=1e-12)
    assert steady(results, "total").estimate.effect == pytest.approx(0.16, abs=1e-12)
    assert steady(results, "layer", "compiler input").estimate.effect == pytest.approx(0.03, abs=1e-12)
    assert steady(results, "eager-optimization", "sync_free").estimate.effect == pytest.approx(0.03, abs=1e-12)
    assert steady(results, "optimization", "no_cuda_graphs").estimate is None
    assert "CPU" in steady(results, "optimization", "no_cuda_graphs").cause


def test_identity_holds_in_every_block_for_every_response(tmp_path: Path) -> None:
    study = make_study(blocks=6, workloads=make_workloads("hm/user-churn", "hm/item-sales"))
    results = analyzed(tmp_path, study, effects={"compile": 0.1, "sync_free": 0.05}, noise=0.05)
    identities = [identity for result in results.workloads for identity in result.speed.identities]
    assert len(identities) == 2 * len(RESPONSES) * 2
    assert all(i.residual < 1e-10 for i in identities)
    assert {i.num_blocks for i in identities if i.response == "steady"} == {6}


def test_saved_compilation_shows_in_the_horizon_only(tmp_path: Path) -> None:
    results = results_of(tmp_path, make_study(blocks=1, design="ladder", factors=make_factors(THREE)))
    step = results.speed.effect("horizon_cold", "ladder", "tensor_lr")
    assert step is not None and step.estimate is not None
    assert step.estimate.effect == pytest.approx(math.log(140.4 / 120.4), abs=1e-12)
    assert steady(results, "ladder", "tensor_lr").estimate.effect == pytest.approx(0.0, abs=1e-12)
    assert any("tensor_lr saved 1 compilation of the optimizer step" in s for s in results.headline)


def test_one_block_has_no_interval_and_a_pilot_no_claim(tmp_path: Path) -> None:
    claim = Claim(speedup=(1.3, 1.35), alternative=(1.43, 1.54))
    for blocks, shown in ((1, False), (4, True)):
        study = make_study(blocks=blocks, claim=claim, factors=make_factors(THREE))
        results = results_of(tmp_path / str(blocks), study, effects={"compile": 0.3}, noise=0.001)
        total = steady(results, "total")
        assert (total.estimate.interval is not None) == shown
        assert not any(e.claimed for e in results.speed.effects)
        assert all(e.share is None for e in results.speed.effects)
        assert {c.verdict for c in results.speed.claims} == {"pilot"}


def test_five_blocks_claim_what_bites_and_nothing_else(tmp_path: Path) -> None:
    effects = {"dynamic_shapes": 0.05, "string_keys": 0.05, "sync_free": 0.05}
    results = results_of(tmp_path, make_study(blocks=5), effects=effects, noise=0.001)
    verdicts = {v.optimization: v.verdict for v in results.speed.evidence}
    assert verdicts == {
        "dynamic_shapes": "bites", "tensor_lr": "bites", "string_keys": "vacuous", "no_cuda_graphs": "inert",
        "sync_free": "structural",
    }  # fmt: skip
    claimed = {
        e.subject for e in results.speed.effects if e.claimed and e.kind == "optimization" and e.response == "steady"
    }
    assert claimed == {"dynamic_shapes"}
    share = steady(results, "optimization", "dynamic_shapes").share
    assert share == pytest.approx(1 / 3, abs=0.02)


def test_results_survive_the_file(tmp_path: Path) -> None:
    study = make_study(blocks=2, claim=Claim(speedup=(1.3, 1.35)))
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design, noise=0.01))
    results = analyze(paths)
    assert read_results(paths) == results
    tables = {path.name for path in (paths.report / "tables").iterdir()}
    assert {"arms.csv", "effects.csv", "evidence.csv", "trials.csv", "claims.csv", "ledger.csv"} <= tables


def test_results_in_another_form_are_refused_with_what_to_do(tmp_path: Path) -> None:
    paths = StudyPaths.of("old", runs=tmp_path, reports=tmp_path)
    paths.results_json.parent.mkdir(parents=True)
    for number, advice in ((2, "run `ablate analyze` again"), (99, "upgrade ablate")):
        paths.results_json.write_text(json.dumps({"format": number, "training": []}))
        with pytest.raises(StoredDataError, match=advice):
            read_results(paths)


def test_absent_and_broken_files_are_named(tmp_path: Path) -> None:
    paths = StudyPaths.of("none", runs=tmp_path, reports=tmp_path)
    with pytest.raises(UserError, match="ablate run"):
        analyze(paths)
    with pytest.raises(StoredDataError, match="ablate analyze"):
        read_results(paths)


def test_eighteen_trials_take_less_than_three_seconds(tmp_path: Path) -> None:
    names = ("hm/user-churn", "hm/item-sales", "hm/user-item-purchase")
    study = make_study(design="cells", cells=ARMS, workloads=make_workloads(*names))
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    assert len(design.trials) == 18
    started = time.perf_counter()
    analyze(paths)
    assert time.perf_counter() - started < 3


def test_a_fixed_optimization_beside_varying_ones(tmp_path: Path) -> None:
    factors = make_factors(["dynamic_shapes", "tensor_lr"]) + make_factors(["sync_free"], setting="on")
    study = make_study(factors=factors, blocks=2)
    results = results_of(tmp_path, study, effects={"dynamic_shapes": 0.1, "tensor_lr": 0.2})
    assert {order.optimization for order in results.speed.order_ranges} == {"dynamic_shapes", "tensor_lr"}
    assert math.log(steady(results, "optimization", "tensor_lr").estimate.speedup) == pytest.approx(0.2, abs=0.05)


def test_trials_of_other_options_of_the_workload_are_not_pooled(tmp_path: Path) -> None:
    study = make_study(factors=make_factors(["tensor_lr"]), blocks=2)
    design = make_design(study)
    trials = make_records(study, design)
    record, series = trials[-1]
    trials[-1] = (replace(record, identity=replace(record.identity, workload_digest="another")), series)
    [results] = analyze(write_study_folder(tmp_path, study, design, trials)).workloads
    assert any("with different options" in finding.text for finding in results.quality.findings)
    assert steady(results, "total").estimate is None


def test_compiling_as_a_factor_splits_the_whole_total(tmp_path: Path) -> None:
    """Naive is eager, so what compiling and `sync_free` gain is the total in every block; k is 0 by construction."""
    compiling = Factor(info=compile_forward.INFO, off_means="today", off="eager", on="compiled")
    study = make_study(factors=(compiling, *make_factors(["sync_free"])), blocks=6)
    results = results_of(tmp_path, study, effects={"compile": 0.2, "sync_free": 0.1}, noise=0.02)
    seen = [i for i in results.speed.identities if i.response == "steady"]
    assert {i.over for i in seen} == {"optimization", "layer"}
    assert all(i.num_blocks == 6 and i.residual < 1e-10 for i in seen)
    assert steady(results, "compile").estimate is None
    assert steady(results, "compile").cause == "the cells that it compares train the same"
    arms = {name: arm for arm in results.speed.arms for name in (arm.arm, *arm.aliases)}
    assert arms["naive"] is arms["eager"] and arms["with-sync_free"].execution == "eager"


def test_workloads_that_have_not_run_are_no_failures(tmp_path: Path) -> None:
    study = make_study(factors=make_factors(["tensor_lr"]), workloads=make_workloads("hm/user-churn", "hm/item-sales"))
    design = make_design(study)
    trials = [(r, series) for r, series in make_records(study, design) if r.identity.workload == "hm/user-churn"]
    results = analyze(write_study_folder(tmp_path, study, design, trials))
    assert [result.name for result in results.workloads_run] == ["hm/user-churn"]
    assert [headline.workload for headline in results.headlines] == ["hm/user-churn"]
    assert "did not complete" not in " ".join(results.headlines[0].sentences)
