"""Parity trials in every state -> what the section "Did it change the training?" and page one print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ablate.analysis.analyze import analyze
from ablate.analysis.results.study import Results
from ablate.core.study import Equivalence, Study
from ablate.design.cells import make_design
from ablate.figures.render import render
from ablate.report.document import make_document
from ablate.report.pdf import make_report
from builders import make_factors, make_study
from simulated import make_records, write_study_folder
from simulated_parity import PRECISION, WEIGHTS, Arm, flat, from_step, with_margins, write_parity_trials

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def study_of(**changes: Any) -> Study:
    base: dict[str, Any] = {"blocks": 1, "design": "leave-one-out", "factors": make_factors(THREE)}
    return make_study(**(base | changes))


def results_of(
    tmp_path: Path, study: Study, arms: dict[str, Arm] | None = None, *, simulation: dict[str, Any] | None = None,
    **parity: Any
) -> Results:  # fmt: skip
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design, **(simulation or {})))
    write_parity_trials(paths, study, design, arms, **parity)
    return analyze(paths)


def section(results: Results) -> dict[str, Any]:
    found: dict[str, Any] = make_document(results, [])["workloads"][0]["training"]
    return found


def row(table: dict[str, Any], subject: str) -> list[str]:
    return [cell["main"] for cell in next(r for r in table["rows"] if r[0]["main"] == subject)]


def training_sentence(results: Results) -> str:
    sentences: list[str] = make_document(results, [])["answers"][0]["sentences"]
    return next(s for s in sentences if s.startswith("Did it change the training?"))


def test_verdicts_of_arms_and_optimizations(tmp_path: Path) -> None:
    arms = {
        "naive": Arm(deviation=from_step(8, 1e-3), lr=1.02, predictions=np.array([0.0, 0.75, 0.0, 0.0])),
        "without-sync_free": Arm(deviation=flat(1e-7), weights=WEIGHTS + 1),
    }
    results = results_of(tmp_path, study_of(), arms)
    found = section(results)
    assert found["arms"]["headers"] == [
        "arm", "verdict", "decided by", "largest deviation, tested", "departs first", "why", "predictions"
    ]  # fmt: skip
    assert row(found["arms"], "naive") == [
        "naive", "different", "tier 1, envelope", "0.001", "lr, step 0",
        "the loss leaves the envelope at step 8 (window 0, block 0); the learning rate departs first, at step 0",
        "1 of 4 decisions",
    ]  # fmt: skip
    assert row(found["arms"], "full")[1:3] == ["equivalent", "tier 1, envelope"]
    assert row(found["optimizations"], "tensor_lr")[1:3] == ["equivalent", "tier 0, bitwise"]
    assert row(found["optimizations"], "sync_free")[1:3] == ["equivalent", "tier 1, envelope"]
    assert found["called_out"] == [
        "sync_free: declared identical, but not bitwise equal (largest relative deviation 1.0e-07, within rounding)"
    ]
    assert row(found["agreement"], "eager rerun")[2] == "0 of 4 decisions"
    assert training_sentence(results) == (
        "Did it change the training? full against eager: equivalent (within eager's own rounding for all 12 tested "
        "steps of 1 window, every loss equal in every bit); other arms: naive different, without-dynamic_shapes, "
        "without-tensor_lr, without-sync_free equivalent; optimizations: all 3 equivalent; changed beyond what it "
        "declares: sync_free."
    )


def test_unaligned_masks_and_refused_precision_are_said(tmp_path: Path) -> None:
    arms = {
        "full": Arm(masks="not aligned", note="mask 1 of step 0 differs"),
        "naive": Arm(precision=PRECISION | {"autocast": "bfloat16"}),
    }
    found = section(results_of(tmp_path, study_of(), arms))
    text = "\n".join(found["gaps"])
    assert "full: the dropout masks are not aligned (mask 1 of step 0 differs)" in text
    assert "not paired, since their numbers are rounded by different settings (autocast: bfloat16 against off)" in text
    assert {row(found["arms"], arm)[1] for arm in ("full", "naive")} == {"inconclusive"}


def test_off_says_what_was_not_tested(tmp_path: Path) -> None:
    results = results_of(tmp_path, study_of(equivalence=Equivalence(parity="off")))
    found = section(results)
    assert row(found["arms"], "full")[1] == "inconclusive"
    assert any("parity trials are off in the spec (equivalence: off)" in line for line in found["open"])
    document = make_document(results, [])
    assert any(line.startswith("hm/user-churn: Rounding step by step") for line in document["not_tested"])
    assert "full against eager: inconclusive (final loss inconclusive" in training_sentence(results)
    assert "one block" in training_sentence(results)


def test_margins_are_printed_with_when_they_were_stated(tmp_path: Path) -> None:
    study = study_of(blocks=5, equivalence=Equivalence(parity="off", margin={"hm/user-churn": 0.001}))
    stated = section(results_of(tmp_path / "a", study, simulation={"change": with_margins(loss=0.001)}))
    cells = next(r for r in stated["margins"]["rows"] if r[0]["main"] == "full")
    assert cells[3] == {"main": "±0.001", "small": "stated before the trials", "tone": ""}
    assert cells[4]["main"] == "different within margin"
    late = section(results_of(tmp_path / "b", study, simulation={"change": with_margins()}))
    cells = next(r for r in late["margins"]["rows"] if r[0]["main"] == "full")
    assert cells[3]["small"] == "stated post hoc"
    none = section(results_of(tmp_path / "c", study_of(blocks=5, equivalence=Equivalence(parity="off"))))
    assert any("run `ablate margins SPEC`" in line for line in none["open"])


def test_untested_windows_are_named(tmp_path: Path) -> None:
    found = section(results_of(tmp_path, study_of(blocks=2)))
    assert any("windows from step 6 and blocks other than 0" in line for line in found["open"])


def test_no_deviation_is_called_equal_by_its_size(tmp_path: Path) -> None:
    found = section(results_of(tmp_path, study_of(equivalence=Equivalence(parity="off"))))
    assert "never called equivalent" in found["rule"]
    assert row(found["curves"], "full")[3] == "1.2e-06"  # 1e-7 (t + 1) after 12 steps: small, and not equivalent
    assert row(found["arms"], "full")[1] != "equivalent"


def test_a_loss_that_is_not_finite_and_all_fallbacks_reach_the_pdf(tmp_path: Path) -> None:
    study = study_of(blocks=2, equivalence=Equivalence(parity="all", windows=(0, "middle")))
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    arms = {
        "full": Arm(deviation=lambda step: np.append(np.zeros(3), np.inf), status="non-finite"),
        "naive": Arm(masks="not aligned"),
        "without-sync_free": Arm(status="failed"),
        "without-tensor_lr": Arm(stream="other"),
    }
    write_parity_trials(paths, study, design, arms)
    results = analyze(paths)
    render(paths, results)
    assert make_report(paths, results).read_bytes().startswith(b"%PDF-")
    found = section(results)
    assert row(found["arms"], "full")[5] == "the loss of full is not finite at step 3 (window 0, block 0)"
    assert "full against eager: different (the loss of full is not finite at step 3" in training_sentence(results)
