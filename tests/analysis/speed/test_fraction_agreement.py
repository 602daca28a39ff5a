"""Simulated factorials without and with a triple -> the fraction in their records agrees, or is found to disagree."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from ablate.analysis.analyze import analyze
from ablate.core.cell import PlannedTrial
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.design.cells import make_design
from benchmarks.fraction import __main__ as benchmark
from builders import make_study
from simulated import make_records, timed, write_study_folder

TRIPLE = {"dynamic_shapes", "tensor_lr", "sync_free"}


def folder(tmp_path: Path, triple: float) -> Path:
    def change(record: TrialRecord, planned: PlannedTrial) -> TrialRecord:
        hit = planned.cell.cell.execution == "compiled" and set(planned.cell.on) >= TRIPLE
        return timed(record, math.exp(-triple)) if hit else record

    study: Study = make_study(blocks=5, compile_cache="none")
    design = make_design(study)
    effects = {"compile": 0.1, "sync_free": 0.05}
    records = make_records(study, design, effects=effects, noise=0.004, seed=3, change=change)
    paths = write_study_folder(tmp_path, study, design, records)
    analyze(paths)
    return paths.root


@pytest.mark.parametrize(("triple", "code", "word"), [(0.0, 0, " agree"), (0.2, 1, "DISAGREE")])
def test_both_reports_and_their_agreement(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    triple: float,
    code: int,
    word: str,
) -> None:
    root = folder(tmp_path, triple)
    monkeypatch.setattr(sys, "argv", ["fraction", str(root), "--output", str(tmp_path / "out")])
    assert benchmark.main() == code
    agreement = (tmp_path / "out" / "agreement.txt").read_text()
    assert word in agreement
    full, fraction = ((tmp_path / "out" / f"{name}.txt").read_text() for name in ("full", "fraction"))
    assert "20 trials a block, blocks 0 to 4, 100 trials completed" in full
    assert "9 trials a block, blocks 0 to 4, 45 trials completed" in fraction
    for text in (full, fraction):
        assert "A/A           eager" in text and "sync_free" in text
    assert "fold-over rule" in fraction and "fold-over rule" not in full
    assert agreement in capsys.readouterr().out


def test_a_range_of_blocks_is_compared_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder(tmp_path, 0.0)
    monkeypatch.setattr(sys, "argv", ["fraction", str(root), "--blocks", "1-3", "--output", str(tmp_path / "out")])
    benchmark.main()
    assert "blocks 1 to 3, 60 trials completed" in (tmp_path / "out" / "full.txt").read_text()


def test_a_folder_without_a_study_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fraction", str(tmp_path)])
    assert benchmark.main() == 1
    assert "No such file" in capsys.readouterr().err
