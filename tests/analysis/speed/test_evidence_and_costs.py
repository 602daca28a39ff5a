"""Counters, times and losses worked out by hand -> verdicts, break-even, ledger and curve distances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ablate.analysis.results.speed import ExpectationResult
from ablate.analysis.speed.costs import break_even, horizon_parts
from ablate.analysis.speed.evidence import flags, holds, pairs_of
from ablate.analysis.statistics.envelope import relative_deviation
from ablate.analysis.training.curves import curve_distance
from ablate.core.evidence import CompileEvent, Evidence, LimitHit
from ablate.core.record import Times
from ablate.core.study import ExplicitCell
from ablate.design.cells import make_design
from builders import make_factors, make_study
from simulated import make_records


def times(**changes: object) -> Times:
    base = Times(
        epoch_s=(25.0, 5.0, 5.0), steady_s=5.0, steady_epochs=(1, 2), startup_s=20.0, horizon_s=70.0,
        horizon_epochs=10, compile_s=18.0, loader_wait_s=(1.5, 1.0, 1.0), first_step_s=19.0,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def test_ledger_by_hand() -> None:
    # 10 epochs x 1.0 s wait, and 0.5 s more in the first; the rest of 70 s trains
    assert horizon_parts(times()) == pytest.approx((18.0, 10.5, 41.5))


def test_ledger_never_exceeds_the_horizon() -> None:
    compiling, waiting, training = horizon_parts(times(compile_s=90.0))
    assert (compiling, waiting, training) == (70.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("startup", "saving", "verdict", "epochs"),
    [(40.0, 2.0, "after", 20.0), (-1.0, 2.0, "at once", 0.0), (40.0, 0.0, "never", None), (40.0, -1.0, "never", None)],
)
def test_break_even_by_hand(startup: float, saving: float, verdict: str, epochs: float | None) -> None:
    found = break_even("cold", startup, saving)
    assert (found.verdict, found.epochs) == (verdict, epochs)


def test_relative_deviation_by_hand() -> None:
    loss, eager = np.array([1.0, 0.9, 0.0, 0.5]), np.array([1.0, 1.0, 0.0, 0.0])
    assert relative_deviation(loss, eager) == pytest.approx([0.0, 0.1, 0.0, np.inf])


def test_curve_distance_by_hand() -> None:
    found = curve_distance("full", 0, np.array([1.0, 1.000001, 1.1]), np.array([1.0, 1.0, 1.0]))
    assert (found.max_deviation, found.first_step_beyond, found.final_loss) == (pytest.approx(0.1), 2, 1.1)


def test_curves_of_unlike_length_or_not_finite_are_not_compared_blindly() -> None:
    shorter = curve_distance("full", 0, np.array([1.0]), np.array([1.0, 1.0]))
    assert shorter.max_deviation is None and "1 against 2" in shorter.note
    broken = curve_distance("full", 0, np.array([1.0, np.nan]), np.array([1.0, 1.0]))
    assert (broken.first_step_beyond, broken.final_loss, broken.max_deviation) == (1, None, None)


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
    assert holds(result) is expected


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
    restless = replace(records["full"], times=replace(records["full"].times, steady_s=None, horizon_s=None))
    assert flags(restless) == ("no steady state",)
    assert flags(records["eager"]) == ()
