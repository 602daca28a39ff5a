"""Simulated parity trials -> the panels, limits and crosses of the deviation figure, worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from ablate.analysis.analyze import analyze
from ablate.analysis.results.study import WorkloadResults
from ablate.core.study import Equivalence
from ablate.design.cells import make_design
from ablate.figures import deviation, loss_curves
from ablate.figures.render import draw_svg
from builders import make_factors, make_study
from simulated import make_records, write_study_folder
from simulated_parity import Arm, flat, from_step, write_parity_trials

WINDOWS = Equivalence(parity="all", windows=(0, "middle"), margin={"hm/user-churn": 0.02})


def results_of(
    tmp_path: Path, arms: dict[str, Arm], equivalence: Equivalence = WINDOWS, **parity: Any
) -> WorkloadResults:
    factors = make_factors(("dynamic_shapes", "tensor_lr", "sync_free"))
    study = make_study(blocks=1, design="leave-one-out", factors=factors, equivalence=equivalence)
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design))
    write_parity_trials(paths, study, design, arms, **parity)
    return analyze(paths).workloads[0]


def test_one_panel_a_window_with_ten_times_eagers_own_deviation(tmp_path: Path) -> None:
    arms = {"full": Arm(deviation=flat(2e-6)), "without-tensor_lr": Arm(deviation=from_step(8, 1e-3))}
    info = deviation.info(results_of(tmp_path, arms))
    assert info is not None
    assert [(panel.window, panel.limit_steps) for panel in info.panels] == [
        (0, tuple(range(12))), (6, tuple(range(6, 12)))
    ]  # fmt: skip
    first = info.panels[0]
    assert first.limit == pytest.approx([1e-5] * 12, rel=1e-3)
    assert first.untested_from is None
    assert [c.arm for c in first.curves][:3] == ["naive", "full", "without-tensor_lr"]
    assert first.curves[1].deviation == pytest.approx([2e-6] * 12, rel=1e-3)
    assert [c.first_step for c in first.curves][:3] == [None, None, 8]
    assert "without-tensor_lr at most 1.0e-03, leaves the envelope at step 8" in deviation.describe(info)


def test_the_end_of_the_tested_steps_is_marked(tmp_path: Path) -> None:
    info = deviation.info(results_of(tmp_path, {}, rerun=1e-4))
    assert info is not None
    assert info.panels[0].untested_from == 0
    assert "naive not tested" in deviation.describe(info)
    assert draw_svg(deviation, info).startswith(b"<?xml")


def test_a_window_that_ended_is_drawn_as_far_as_it_went(tmp_path: Path) -> None:
    ended = Arm(deviation=lambda step: np.append(np.zeros(3), np.nan), status="non-finite")
    info = deviation.info(results_of(tmp_path, {"full": ended}))
    assert info is not None
    full = next(c for c in info.panels[0].curves if c.arm == "full")
    assert (full.steps, full.deviation, full.first_step) == ((0, 1, 2, 3), (0.0, 0.0, 0.0, None), 3)
    axes = Figure().subplots(1, deviation.panels(info), squeeze=False)[0]
    deviation.draw(info, axes)
    [cross] = [line for line in axes[0].lines if line.get_marker() == "x"]
    _, y = axes[0].transAxes.inverted().transform(cross.get_transform().transform((3, cross.get_ydata()[0])))
    assert cross.get_xdata() == [3] and y == pytest.approx(1.0)  # at the upper edge


def test_nothing_is_drawn_without_parity_trials(tmp_path: Path) -> None:
    off = Equivalence(parity="off")
    assert deviation.info(results_of(tmp_path, {}, off)) is None


def test_arms_that_cannot_be_shown_are_counted(tmp_path: Path) -> None:
    info = deviation.info(results_of(tmp_path, {}))
    assert info is not None
    assert (len(info.panels[0].curves), info.num_hidden) == (5, 0)


def test_the_margin_of_the_spec_is_in_the_loss_curves(tmp_path: Path) -> None:
    info = loss_curves.info(results_of(tmp_path, {}))
    assert info is not None and info.margin == 0.02
    assert draw_svg(loss_curves, info).startswith(b"<?xml")
