"""Step times with planted levels -> a verdict per trial, and findings that say what to do."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.analysis.quality.residuals import judge, stability_findings
from ablate.analysis.statistics.change_points import find_levels


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


def test_findings_say_what_to_do() -> None:
    restless = judge("full", 2, find_levels([noisy([(170, 1.0), (30, 1.2)])], [0])[0], 0, 50)
    slower = judge("naive", 1, find_levels([noisy([(100, 1.0), (100, 1.2)])], [0])[0], 0, 50)
    texts = [finding.text for finding in stability_findings([restless, slower])]
    assert "1 of 2 trials have no steady state" in texts[0] and "full in block 2" in texts[0]
    assert "naive in block 1 +19.8 % from step 100" in texts[1] and "more blocks" in texts[1]
    assert stability_findings([judge("full", 0, (), 0, 50)]) == []
