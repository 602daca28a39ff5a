"""Counters worked out by hand -> pairs, verdicts and flags."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.analysis.results.speed import ExpectationResult
from ablate.analysis.speed.evidence import flags, pairs_of
from ablate.core.evidence import CompileEvent, Evidence, LimitHit
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from builders import make_factors, make_study
from simulated import make_records


def test_pairs_differ_in_one_optimization_only() -> None:
    study = make_study(factors=make_factors(["tensor_lr", "sync_free"]))
    design = make_design(study)
    assert len(pairs_of(study, design, "tensor_lr")) == 2
    assert len(pairs_of(study, design, "sync_free")) == 3  # two compiled pairs and the eager one
    arms = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))
    alone = make_study(design="cells", cells=arms, factors=study.factors)
    assert pairs_of(alone, make_design(alone), "tensor_lr") == ()


@pytest.mark.parametrize(
    ("pairs", "as_declared", "opposite", "expected"),
    [(4, 4, 0, True), (4, 2, 1, True), (4, 2, 2, False), (4, 1, 0, False), (0, 0, 0, False)],
)
def test_an_expectation_holds_in_half_of_the_pairs(pairs: int, as_declared: int, opposite: int, expected: bool) -> None:
    result = ExpectationResult(
        counter="graph_breaks", direction="fewer", sentence="", num_pairs=pairs, num_as_expected=as_declared,
        num_opposite=opposite,
    )  # fmt: skip
    assert result.holds is expected


def test_flags_name_the_step_where_the_compiler_was_left() -> None:
    study = make_study(blocks=1)
    records = {r.identity.arms[0]: r for r, _ in make_records(study, make_design(study)) if r.identity.arms}
    hit = LimitHit(step=9, function="forward", message="recompile_limit")
    event = CompileEvent(step=3, function="optimizer_step", seconds=1.0, failure="cannot")
    naive = replace(records["naive"], evidence=Evidence(limit_hits=(hit,), events=(event,)))
    assert flags(naive) == (
        "not really compiled: optimizer_step eager after step 3",
        "not really compiled: forward eager after step 9",
    )
    sized = replace(hit, sizes={"customer": 64, "article": 120, "customer buys article": 300, "x y z": 4})
    kernel = CompileEvent(step=0, function="forward", seconds=1.0, sizes={"customer": 64, "article": 7, "x y z": 1})
    static = replace(records["naive"], evidence=Evidence(limit_hits=(sized,), events=(kernel,)))
    assert flags(static) == (
        "not really compiled: forward eager after step 9; limit hit by customer 64, article 120; 304 edges, "
        "after kernels for customer 64, article 7; 1 edges",
    )
    assert records["full"].times is not None
    restless = replace(records["full"], times=replace(records["full"].times, steady_epochs=()))
    assert flags(restless) == ("no steady state",)
    assert flags(records["eager"]) == ()
