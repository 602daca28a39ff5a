"""Step times with planted levels -> a verdict per trial, and findings that say what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ablate.analysis.quality.residuals import judge, read_step_times, stability_findings
from ablate.analysis.statistics.change_points import find_levels
from ablate.analysis.trials.comparable import Trial
from ablate.records.store import SERIES


def noisy(levels: list[tuple[int, float]], seed: int = 0, noise: float = 0.02) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.concatenate([level * (1 + noise * generator.standard_normal(n)) for n, level in levels])


def test_verdicts_by_hand() -> None:
    def verdict(series: np.ndarray, epoch: int) -> tuple[str, int, float | None]:
        found = judge("full", 0, find_levels([series], [0])[0], 0, epoch)
        return found.verdict, found.steady_from, found.change

    assert verdict(noisy([(200, 1.0)]), 50) == ("flat", 0, None)
    word, start, change = verdict(noisy([(100, 1.0), (100, 1.2)]), 50)
    assert (word, start) == ("settles", 100) and change == pytest.approx(1.2, abs=0.01)
    assert verdict(noisy([(170, 1.0), (30, 1.2)]), 50)[0] == "no steady state"
    assert verdict(np.ones(200), 50)[0] == "flat"
    assert verdict(np.ones(5), 50)[0] == "too short"


def test_on_a_gpu_the_device_s_step_times_are_judged(tmp_path: Path) -> None:
    """The host gave every step away after the same time; the device took longer from step 100 on."""
    device_s = noisy([(100, 1.0), (100, 1.2)])
    columns = {name: [0.0] * 200 for name in SERIES.columns}
    SERIES.write(tmp_path, {**columns, "step": range(200), "step_s": device_s, "host_step_s": [0.01] * 200})
    steps = read_step_times(Trial(record=None, folder=tmp_path))  # type: ignore[arg-type]
    assert steps == pytest.approx(device_s)
    assert judge("full", 0, find_levels([steps], [0])[0], 0, 50).verdict == "settles"


def test_findings_say_what_to_do() -> None:
    restless = judge("full", 2, find_levels([noisy([(170, 1.0), (30, 1.2)])], [0])[0], 0, 50)
    slower = judge("naive", 1, find_levels([noisy([(100, 1.0), (100, 1.2)])], [0])[0], 0, 50)
    texts = [finding.text for finding in stability_findings([restless, slower])]
    assert "1 of 2 trials have no steady state" in texts[0] and "full in block 2" in texts[0]
    assert "naive in block 1 +19.8 % from step 100" in texts[1] and "more blocks" in texts[1]
    assert stability_findings([judge("full", 0, (), 0, 50)]) == []
