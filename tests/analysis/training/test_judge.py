"""Simulated studies with parity and timed trials -> verdicts, fallbacks, refusals, and effects untouched by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ablate.analysis.analyze import analyze, read_results
from ablate.analysis.results.study import WorkloadResults
from ablate.core.cell import PlannedTrial
from ablate.core.evidence import Evidence, LimitHit
from ablate.core.record import TrialRecord
from ablate.core.study import Equivalence, Study
from ablate.design.cells import make_design
from ablate.records.store import read_record, write_record
from builders import make_factors, make_study, make_workloads
from simulated import Trial, fail, make_records, write_study_folder
from simulated_parity import (
    PRECISION,
    WEIGHTS,
    Arm,
    flat,
    from_step,
    with_margins,
    write_parity_trials,
    write_run_predictions,
)

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")
ALL = Equivalence(parity="all", windows=(0, "middle"))


def study_of(**changes: Any) -> Study:
    base: dict[str, Any] = {"blocks": 1, "factors": make_factors(THREE), "design": "leave-one-out"}
    return make_study(**(base | changes))


def analyzed(
    tmp_path: Path,
    study: Study,
    arms: dict[str, Arm] | None = None,
    *,
    edit: Callable[[list[Trial]], list[Trial]] = lambda trials: trials,
    simulation: dict[str, Any] | None = None,
    **parity: Any,
) -> WorkloadResults:
    design = make_design(study)
    trials = edit(make_records(study, design, **(simulation or {})))
    paths = write_study_folder(tmp_path, study, design, trials)
    write_parity_trials(paths, study, design, arms, **parity)
    analyze(paths)
    [results] = read_results(paths).workloads
    return results


def verdict(results: WorkloadResults, subject: str) -> Any:
    return next(v for v in results.training.verdicts if v.subject == subject)


def scaled_loss(factor: float, *, execution: str = "compiled") -> Callable[[list[Trial]], list[Trial]]:
    """Multiply the losses of timed trials of an execution mode."""

    def edit(trials: list[Trial]) -> list[Trial]:
        return [
            (record, series.assign(loss=series["loss"] * factor))
            if record.identity.execution == execution else (record, series)
            for record, series in trials
        ]  # fmt: skip

    return edit


def test_parity_records_never_enter_effects(tmp_path: Path) -> None:
    study = study_of()
    design = make_design(study)
    records = make_records(study, design, effects={"compile": 0.1, "sync_free": 0.05})
    [alone] = analyze(write_study_folder(tmp_path / "alone", study, design, records)).workloads
    paths = write_study_folder(tmp_path / "both", study, design, records)
    write_parity_trials(paths, study, design)
    [both] = analyze(paths).workloads
    assert (both.speed, both.quality) == (alone.speed, alone.quality)
    assert both.training.curves == alone.training.curves
    assert {v.verdict for v in alone.training.verdicts if v.side == "arm"} == {
        "inconclusive"
    }  # one block, no parity trial
    assert {v.verdict for v in both.training.verdicts} == {"equivalent"}


def test_equal_arms_are_equivalent_within_the_envelope_and_optimizations_bitwise(tmp_path: Path) -> None:
    close = Arm(deviation=flat(9e-6))
    arms = ["naive", "full", *(f"without-{name}" for name in THREE)]
    results = analyzed(tmp_path, study_of(), dict.fromkeys(arms, close))
    full = verdict(results, "full")
    assert (full.verdict, full.tier, full.num_windows, full.num_steps) == ("equivalent", 1, 1, 12)
    assert full.largest == pytest.approx(9e-6, rel=1e-3)
    for name in THREE:
        assert (verdict(results, name).verdict, verdict(results, name).tier) == ("equivalent", 0)


def test_a_difference_names_step_window_quantity_and_the_optimization(tmp_path: Path) -> None:
    broken = Arm(deviation=from_step(8, 1e-3), lr=1.02)
    study = study_of(equivalence=ALL)
    results = analyzed(tmp_path, study, {"naive": broken, "without-tensor_lr": broken})
    naive = verdict(results, "naive")
    assert (naive.verdict, naive.tier, naive.window, naive.first_step) == ("different", 1, 0, 8)
    assert (naive.quantity, naive.quantity_step) == ("lr", 0)
    assert verdict(results, "full").verdict == "equivalent"
    assert verdict(results, "sync_free").tier == 0
    culprit = verdict(results, "tensor_lr")
    assert (culprit.verdict, culprit.first_step, culprit.quantity) == ("different", 8, "lr")
    assert culprit.called_out.startswith(f"declared {culprit.numerics}, but the loss leaves the envelope at step 8")
    windows = [(w.window, w.outcome) for w in results.training.windows if w.subject == "naive"]
    assert windows == [(0, "beyond the envelope"), (6, "beyond the envelope")]


def test_planted_quantities_depart_first(tmp_path: Path) -> None:
    arms = {
        "naive": Arm(deviation=flat(1e-2), mask=1),
        "full": Arm(deviation=from_step(4, 1e-2), grad=0.1),
        "without-tensor_lr": Arm(deviation=from_step(4, 1e-2)),
        "without-sync_free": Arm(lr=1.001),  # too small to show in these steps
    }
    results = analyzed(tmp_path, study_of(), arms)
    found = {name: (verdict(results, name).quantity, verdict(results, name).quantity_step) for name in arms}
    assert found == {
        "naive": ("mask", 0), "full": ("gradient", 0), "without-tensor_lr": ("loss", 4), "without-sync_free": ("lr", 0)
    }  # fmt: skip
    assert verdict(results, "without-sync_free").verdict == "different"
    assert verdict(results, "without-sync_free").first_step is None


def test_identical_arithmetic_must_be_bitwise_where_eager_is(tmp_path: Path) -> None:
    arms = {"without-sync_free": Arm(deviation=flat(1e-7), weights=WEIGHTS + 1)}
    results = analyzed(tmp_path / "sure", study_of(), arms)
    found = verdict(results, "sync_free")
    assert found.numerics == "identical"
    assert (found.verdict, found.tier) == ("equivalent", 1)
    assert "declared identical, but not bitwise equal (largest relative deviation 1.0e-07" in found.called_out
    unsure = analyzed(tmp_path / "unsure", study_of(), arms, deterministic=False)
    assert verdict(unsure, "sync_free").called_out == ""
    assert any("two eager runs are not bitwise equal" in text for text in unsure.training.untested)


def test_unaligned_masks_fall_back_to_tier_2(tmp_path: Path) -> None:
    loose = Arm(masks="not aligned", note="mask 1 of step 0 differs")
    results = analyzed(tmp_path, study_of(), {"full": loose})
    full = verdict(results, "full")
    assert (full.verdict, full.tier) == ("inconclusive", 2)  # one block
    assert any("the dropout masks are not aligned (mask 1 of step 0 differs)" in gap for gap in full.gaps)
    assert verdict(results, "sync_free").verdict == "inconclusive"  # it needs full
    assert verdict(results, "naive").verdict == "equivalent"
    assert [a.note for a in results.training.agreement if a.arm == "full"] == [
        "full: the dropout masks are not aligned (mask 1 of step 0 differs)"
    ]


def test_other_precision_or_other_batches_are_refused_by_name(tmp_path: Path) -> None:
    arms = {"full": Arm(precision=PRECISION | {"autocast": "bfloat16"}), "naive": Arm(stream="other")}
    results = analyzed(tmp_path, study_of(), arms)
    assert any("autocast: bfloat16 against off" in gap for gap in verdict(results, "full").gaps)
    assert any("the batches of this window differ" in gap for gap in verdict(results, "naive").gaps)
    assert not {verdict(results, name).verdict for name in ("full", "naive")} & {"equivalent", "different"}


def test_other_precision_is_refused_in_timed_trials_too(tmp_path: Path) -> None:
    other = {"precision": PRECISION | {"autocast": "bfloat16"}}

    def edit(trials: list[Trial]) -> list[Trial]:
        return [
            (replace(r, **(other if "full" in r.identity.arms else {"precision": PRECISION})), series)
            for r, series in trials
        ]

    study = study_of(blocks=5, equivalence=Equivalence(margin={"hm/user-churn": 0.01}))
    results = analyzed(tmp_path, study, {"full": Arm(**other)}, edit=edit)
    full = verdict(results, "full")
    assert (full.verdict, full.tier) == ("inconclusive", 2)
    assert "rounded by different settings (autocast: bfloat16 against off)" in full.reason
    assert verdict(results, "sync_free").verdict == "inconclusive"  # it needs full
    assert verdict(results, "naive").verdict == "equivalent"


def test_masks_that_differ_are_different_even_where_the_loss_does_not_show_it(tmp_path: Path) -> None:
    full = verdict(analyzed(tmp_path, study_of(), {"full": Arm(mask=1)}), "full")
    assert (full.verdict, full.tier) == ("different", 1)
    assert full.reason == "the dropout masks differ from step 0 on (window 0, block 0)"


def test_a_parity_trial_that_left_the_compiler_is_said(tmp_path: Path) -> None:
    def give_up(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        hit = LimitHit(step=3, function="forward", message="recompile limit")
        return replace(record, evidence=Evidence(limit_hits=(hit,))) if "full" in planned.cell.arms else record

    results = analyzed(tmp_path, study_of(), change=give_up)
    said = "full in its parity trial of block 0: not really compiled: forward eager after step 3"
    assert said in verdict(results, "full").gaps and said in verdict(results, "sync_free").gaps
    assert not any("not really compiled" in gap for gap in verdict(results, "naive").gaps)


@pytest.mark.parametrize("arm", ["full", "without-sync_free"])
def test_an_optimization_is_different_whichever_side_becomes_infinite(tmp_path: Path, arm: str) -> None:
    def edit(trials: list[Trial]) -> list[Trial]:
        return [
            (fail(r, "loss is nan", "non-finite"), series) if arm in r.identity.arms and r.identity.block == 0 else
            (r, series) for r, series in trials
        ]  # fmt: skip

    found = verdict(analyzed(tmp_path, study_of(blocks=5), edit=edit), "sync_free")
    assert (found.verdict, found.tier) == ("different", 2)
    assert found.reason.startswith(f"the loss of the timed trial of {arm} is not finite")


def test_a_loss_that_becomes_infinite_is_different_and_names_the_step(tmp_path: Path) -> None:
    def blow_up(step: np.ndarray) -> np.ndarray:
        return np.append(np.zeros(5), np.nan)

    results = analyzed(tmp_path, study_of(), {"full": Arm(deviation=blow_up, status="non-finite")})
    full = verdict(results, "full")
    assert (full.verdict, full.tier, full.first_step) == ("different", 1, 5)
    assert full.reason == "the loss of full is not finite at step 5 (window 0, block 0)"
    assert verdict(results, "naive").verdict == "equivalent"


def test_a_timed_trial_that_becomes_infinite_is_different(tmp_path: Path) -> None:
    def edit(trials: list[Trial]) -> list[Trial]:
        found = []
        for record, series in trials:
            if "full" in record.identity.arms:
                record, series = fail(record, "loss is nan", "non-finite"), series.iloc[:5].copy()
                series.loc[series.index[-1], "loss"] = np.nan
            found.append((record, series))
        return found

    full = verdict(analyzed(tmp_path, study_of(), edit=edit), "full")
    assert (full.verdict, full.tier) == ("different", 2)
    assert full.reason == "the loss of the timed trial of full is not finite at step 4 (block 0), that of eager is"


def test_trials_that_failed_are_named_and_the_others_judged(tmp_path: Path) -> None:
    results = analyzed(tmp_path, study_of(), {"full": Arm(status="failed"), "naive": Arm(status=None)})
    assert any("its parity trial: failed" in gap for gap in verdict(results, "full").gaps)
    assert any("its parity trial: not run" in gap for gap in verdict(results, "naive").gaps)
    assert verdict(results, "without-sync_free").verdict == "equivalent"
    no_eager = analyzed(tmp_path / "no-eager", study_of(), eager=Arm(status="failed"))
    assert all("eager's parity trial: failed" in verdict(no_eager, arm).gaps[0] for arm in ("naive", "full"))


def test_an_eager_that_does_not_repeat_itself_tests_nothing(tmp_path: Path) -> None:
    results = analyzed(tmp_path, study_of(), rerun=1e-4)
    assert verdict(results, "full").verdict == "inconclusive"
    assert any("eager repeats itself within 1e-5 for only 0 of 12 steps" in g for g in verdict(results, "full").gaps)


def test_off_leaves_tier_2_and_says_what_was_not_tested(tmp_path: Path) -> None:
    margins = Equivalence(parity="off", margin={"hm/user-churn": 0.001})
    results = analyzed(
        tmp_path, study_of(blocks=5, equivalence=margins), simulation={"change": with_margins(loss=0.001)}
    )
    full = verdict(results, "full")
    # the simulated compiled losses differ by 1e-7 (t + 1) of the loss in every block alike: different, inside 0.001
    assert (full.verdict, full.tier) == ("different within margin", 2)
    assert {m.stated for m in results.training.margins if m.quantity == "final loss"} == {"before the trials"}
    assert any("parity trials are off in the spec" in text for text in results.training.untested)


def test_a_margin_that_came_later_is_stated_post_hoc(tmp_path: Path) -> None:
    margins = Equivalence(parity="off", margin={"hm/user-churn": 0.001})
    results = analyzed(tmp_path, study_of(blocks=5, equivalence=margins), simulation={"change": with_margins()})
    assert {m.stated for m in results.training.margins if m.quantity == "final loss"} == {"post hoc"}
    assert "stated post hoc" in verdict(results, "full").reason
    assert any("stated post hoc" in text for text in results.training.untested)


def test_no_margin_is_inconclusive_and_says_what_to_do(tmp_path: Path) -> None:
    results = analyzed(tmp_path, study_of(blocks=5, equivalence=Equivalence(parity="off")))
    full = verdict(results, "full")
    assert full.verdict == "inconclusive"
    assert "no margin in the spec: run `ablate margins SPEC`" in full.reason
    assert any("ablate margins SPEC" in text for text in results.training.untested)


def test_a_loss_outside_the_margin_is_different(tmp_path: Path) -> None:
    margins = Equivalence(parity="off", margin={"hm/user-churn": 0.001})
    results = analyzed(tmp_path, study_of(blocks=5, equivalence=margins), edit=scaled_loss(1.05))
    assert (verdict(results, "full").verdict, verdict(results, "full").tier) == ("different", 2)
    # both cells of a pair are scaled alike: the optimizations change nothing
    assert verdict(results, "sync_free").verdict == "equivalent"


def test_the_whole_training_can_overrule_the_windows(tmp_path: Path) -> None:
    margins = Equivalence(margin={"hm/user-churn": 0.001})
    results = analyzed(tmp_path, study_of(blocks=5, equivalence=margins), edit=scaled_loss(1.05))
    full = verdict(results, "full")
    assert (full.verdict, full.tier) == ("different", 2)
    assert full.reason.startswith("its parity trials pass, but the whole training does not: ")


def test_factorial_contrasts_use_every_cell(tmp_path: Path) -> None:
    margins = Equivalence(parity="off", margin={"hm/user-churn": 0.01})
    study = make_study(blocks=5, factors=make_factors(THREE), equivalence=margins)

    on = {cell.effective_key: "sync_free" in cell.on for cell in make_design(study).cells}

    def edit(trials: list[Trial]) -> list[Trial]:
        return [(r, series.assign(loss=series["loss"] + 0.2 * on[r.identity.effective_key])) for r, series in trials]

    results = analyzed(tmp_path, study, edit=edit)
    row = next(m for m in results.training.margins if (m.subject, m.quantity) == ("sync_free", "final loss"))
    assert row.difference == pytest.approx(0.2, abs=1e-9)
    other = next(m for m in results.training.margins if (m.subject, m.quantity) == ("tensor_lr", "final loss"))
    assert other.difference == pytest.approx(0.0, abs=1e-9)
    assert verdict(results, "sync_free").verdict == "different"
    assert verdict(results, "tensor_lr").verdict == "equivalent"


def test_untested_windows_and_blocks_are_named(tmp_path: Path) -> None:
    results = analyzed(tmp_path, study_of(blocks=2))
    texts = results.training.untested
    assert any("in windows from step 6 and blocks other than 0" in text for text in texts)
    complete = analyzed(tmp_path / "all", study_of(blocks=2, equivalence=ALL))
    assert not any("tiers 0 and 1" in text for text in complete.training.untested)
    assert {(w.block, w.window) for w in complete.training.windows} == {(0, 0), (0, 6), (1, 0), (1, 6)}


def test_an_inert_optimization_is_not_tested(tmp_path: Path) -> None:
    study = study_of(factors=make_factors(("sync_free", "no_cuda_graphs")))
    found = verdict(analyzed(tmp_path, study), "no_cuda_graphs")
    assert found.verdict == "not tested"
    assert found.reason.startswith("inert: ")


def test_arms_named_in_the_spec_leave_optimizations_untested(tmp_path: Path) -> None:
    results = analyzed(tmp_path, study_of(equivalence=Equivalence(arms=("full",))))
    assert {w.subject for w in results.training.windows} == {"full"}
    assert verdict(results, "full").verdict == "equivalent"
    found = verdict(results, "sync_free")
    assert found.verdict == "inconclusive"
    assert found.gaps[0] == "no parity trials of full and of without-sync_free were planned"


def test_decisions_values_and_rankings_agree_as_counted_by_hand(tmp_path: Path) -> None:
    decisions = analyzed(
        tmp_path / "churn", study_of(), {"full": Arm(predictions=np.array([[0.0, 0.75, 0.0, 0.25]]).T[:, 0])}
    )
    full = next(a for a in decisions.training.agreement if a.arm == "full")  # -0.5 becomes +0.25
    assert (full.kind, full.num_rows, full.num_changed, full.largest, full.mean) == ("decisions", 4, 1, 0.75, 0.25)
    reruns = [a for a in decisions.training.agreement if a.arm == "eager rerun"]
    assert [(a.num_changed, a.largest) for a in reruns] == [(0, pytest.approx(1e-6))] * 2

    sales = study_of(workloads=make_workloads("hm/item-sales"))
    values = analyzed(tmp_path / "sales", sales, {"full": Arm(predictions=np.array([0.0, 0.0, 0.1, 0.3]))})
    full = next(a for a in values.training.agreement if a.arm == "full")
    assert (full.kind, full.num_changed) == ("values", 2)
    assert (full.largest, full.mean) == pytest.approx((0.3, 0.1))

    purchase = study_of(workloads=make_workloads("hm/user-item-purchase"))
    ranks = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    moved = np.array([[1, -1, 0, 0], [0, 0, 0, 91]])  # 2, 1, 3, 4: another order; 5, 6, 7, 99: another member
    rankings = analyzed(
        tmp_path / "purchase", purchase, {"full": Arm(predictions=moved)}, rerun=0.0, predictions=lambda: ranks
    )
    full = next(a for a in rankings.training.agreement if a.arm == "full")
    assert (full.kind, full.num_rows, full.num_changed, full.overlap) == ("rankings", 2, 2, 7 / 8)


def test_timed_predictions_say_that_masks_are_not_aligned(tmp_path: Path) -> None:
    study = study_of(blocks=2)
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    for planned in design.trials:
        shift = 0.0 if planned.cell.name == "eager" else 2.0
        folder = paths.records / planned.slug
        record = read_record(folder)
        write_run_predictions(folder, {"timed": np.array([-1.0, 1.0]) + shift})
        write_record(folder, record)
    found = [a for a in analyze(paths).workloads[0].training.agreement if a.arm == "full"]
    assert [(a.trials, a.block, a.num_changed, a.num_rows) for a in found] == [("timed", 0, 1, 2), ("timed", 1, 1, 2)]
    assert {a.note for a in found} == {"dropout masks are not aligned in timed trials"}
    moved = paths.records / next(t.slug for t in design.trials if t.cell.name == "full")
    record = read_record(moved)
    write_record(moved, replace(record, environment=replace(record.environment, device_name="another")))
    [results] = analyze(paths).workloads
    assert not results.training.agreement  # what is not pooled is not compared here either
    assert any("environments that differ and are not pooled" in text for text in results.training.untested)


def test_records_of_format_1_still_load(tmp_path: Path) -> None:
    import json

    study = study_of(equivalence=Equivalence(parity="off"))
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    for file in paths.records.glob("*/record.json"):
        old = json.loads(file.read_text())
        for name in ("parity", "margins"):
            del old[name]
        del old["identity"]["purpose"]
        file.write_text(json.dumps(old | {"format": 1}))
    assert {v.verdict for v in analyze(paths).workloads[0].training.verdicts} == {"inconclusive"}


def test_the_deviation_shown_is_that_of_the_worst_block(tmp_path: Path) -> None:
    study = study_of(blocks=2, equivalence=Equivalence(parity="all", windows=(0,)))
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    write_parity_trials(paths, study, design, {"full": Arm(deviation=flat(2e-6))})
    worse = replace(design, parity=tuple(t for t in design.parity if t.block == 1))
    write_parity_trials(paths, study, worse, {"full": Arm(deviation=flat(5e-6))})
    shown = next(d for d in analyze(paths).workloads[0].training.deviations if d.arm == "full")
    assert (shown.block, shown.steps, shown.num_tested) == (1, tuple(range(12)), 12)
    assert shown.deviation == pytest.approx([5e-6] * 12, rel=1e-3)
    assert shown.envelope == pytest.approx([1e-6] * 12, rel=1e-3)
