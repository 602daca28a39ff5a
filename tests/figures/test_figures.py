"""Results -> figures whose numbers are right, whose bytes repeat, and which survive hostile and absent input."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.analysis.analyze import analyze
from ablate.analysis.results.study import Results
from ablate.core.study import ExplicitCell, Study, WorkloadChoice
from ablate.design.cells import make_design
from ablate.figures import arms, loss_curves, style, time_ledger, trials, waterfall
from ablate.figures.render import draw_svg, figure_modules, render
from ablate.files.paths import StudyPaths
from builders import WORKLOADS, make_factors, make_study
from simulated import fail, make_records, write_study_folder
from simulated_parity import Arm, from_step, write_parity_trials

CHURN = "hm/user-churn"
HOSTILE = "x/$a_b^{2$ \\frac # \n & <b> {0} %s 漢 " + "long_" * 40
ARMS = tuple(ExplicitCell(arm=arm) for arm in ("eager", "naive", "full"))
THREE = ("dynamic_shapes", "string_keys", "sync_free")


def analyzed(tmp_path: Path, study: Study, **simulation: Any) -> tuple[StudyPaths, Results]:
    design = make_design(study)
    paths = write_study_folder(tmp_path, study, design, make_records(study, design, **simulation))
    return paths, analyze(paths)


@pytest.fixture(scope="module")
def factorial(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyPaths, Results]:
    study = make_study(blocks=2, factors=make_factors(THREE))
    paths, _ = analyzed(tmp_path_factory.mktemp("figures"), study, effects={"compile": 0.1, "sync_free": 0.05})
    write_parity_trials(paths, study, make_design(study), {"naive": Arm(deviation=from_step(8, 1e-3))})
    return paths, analyze(paths)


def test_the_folder_is_the_registry() -> None:
    assert list(figure_modules()) == [
        "waterfall", "arms", "ladder-orders", "interactions", "loss-curves", "deviation", "time-ledger",
        "trials",
    ]  # fmt: skip


def test_every_figure_is_drawn_with_the_same_bytes_twice(factorial: tuple[StudyPaths, Results]) -> None:
    paths, results = factorial
    first = {name: path.read_bytes() for name, path in render(paths, results).items()}
    assert len(first) == 8
    assert {name: path.read_bytes() for name, path in render(paths, results).items()} == first
    for content in first.values():
        assert ElementTree.fromstring(content).tag.endswith("svg")
        assert b"<text" not in content  # letters are outlines: no font is needed to read it


def test_waterfall_steps_stand_on_each_other(factorial: tuple[StudyPaths, Results]) -> None:
    info = waterfall.info(factorial[1].workloads[0])
    assert info is not None
    panel = info.panels[0]
    assert [s.label for s in panel.rows] == [
        "eager", "naive compile", "dynamic_shapes", "string_keys (vacuous)", "sync_free (structural)", "full"
    ]  # fmt: skip
    for before, after in zip(panel.rows[1:-2], panel.rows[2:-1], strict=True):
        assert after.start == pytest.approx(before.stop, abs=1e-12)
    assert panel.rows[-2].stop == pytest.approx(panel.rows[-1].stop, abs=1e-12)
    assert [s.unclaimed for s in panel.rows] == ["", "", "", "vacuous", "structural", ""]


def test_waterfall_needs_shapley_values(tmp_path: Path) -> None:
    _, results = analyzed(tmp_path, make_study(design="cells", cells=ARMS))
    assert waterfall.info(results.workloads[0]) is None
    found = arms.info(results.workloads[0])
    assert found is not None
    assert [row.name for row in found.panels[0].rows] == ["naive", "full"]


def test_ledger_and_trials_hold_every_bar_and_dot(factorial: tuple[StudyPaths, Results]) -> None:
    bars = time_ledger.info(factorial[1].workloads[0])
    assert bars is not None
    assert [panel.title for panel in bars.panels] == ["cold compile caches", "warm compile caches"]
    assert "waiting for batches" in bars.parts
    panel = bars.panels[0]
    overlapped = replace(panel, rows=tuple(replace(bar, overlaps=True) for bar in panel.rows))
    on_gpu = replace(bars, panels=(overlapped,))
    assert "waiting for batches, at most" in on_gpu.parts and "at most" in time_ledger.describe(on_gpu)
    dots = trials.info(factorial[1].workloads[0])
    assert dots is not None
    assert len(dots.panels[0].rows) == len(factorial[1].workloads[0].quality.trials)
    assert sum(dots.missing) == 0


def test_loss_curves_start_with_the_arms_people_ask_for(factorial: tuple[StudyPaths, Results]) -> None:
    info = loss_curves.info(factorial[1].workloads[0])
    assert info is not None
    assert [c.arm for c in info.curves[:3]] == ["eager", "naive", "full"]
    assert len(info.curves) <= 8


def test_failed_trials_and_absent_numbers_are_drawn_around(tmp_path: Path) -> None:
    def change(record: Any, planned: Any) -> Any:
        if planned.cell.name == "full":
            return fail(record, "out of memory")
        if planned.cell.name == "naive":
            return replace(record, times=replace(record.times, steady_epochs=()))
        return record

    paths, results = analyzed(tmp_path, make_study(design="cells", cells=ARMS), change=change)
    files = render(paths, results)
    assert "trials--0-hm-user-churn" in files
    dots = trials.info(results.workloads[0])
    assert dots is not None and dots.missing == (0, 0, 2)


def test_a_study_without_any_record_has_a_figure_of_nothing(tmp_path: Path) -> None:
    paths, results = analyzed(tmp_path, make_study(design="cells", cells=ARMS), change=lambda *_: None)
    assert list(render(paths, results)) == ["trials--0-hm-user-churn"]


def test_hostile_names_are_printed_not_interpreted(tmp_path: Path) -> None:
    odd = make_factors(["sync_free"])[0]
    odd = replace(odd, info=replace(odd.info, name=HOSTILE))
    workload = WorkloadChoice(info=replace(WORKLOADS[CHURN], name=HOSTILE, title=HOSTILE))
    study = make_study(blocks=1, factors=(*make_factors(["dynamic_shapes"]), odd), workloads=(workload,))
    paths, results = analyzed(tmp_path, study)
    assert len(render(paths, results)) == 7
    assert "\n" not in style.label(HOSTILE) and len(style.label(HOSTILE)) <= style.LONGEST_LABEL


def test_every_figure_has_alternative_text(factorial: tuple[StudyPaths, Results]) -> None:
    for name, module in figure_modules().items():
        info = module.info(factorial[1].workloads[0])
        assert CHURN in module.describe(info), name
        assert draw_svg(module, info).startswith(b"<?xml")
