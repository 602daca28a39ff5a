"""Two simulated stacks -> differences of effects that are right, labeled, and cover in a simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ablate.analysis.analyze import analyze_trials
from ablate.analysis.compare import compare, difference_interval
from ablate.analysis.results.study import Results
from ablate.analysis.trials.comparable import Trial
from ablate.core.study import Timing
from ablate.design.cells import make_design
from builders import make_factors, make_study
from simulated import make_records

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def stack(version: str, effects: dict[str, float], *, blocks: int = 6, seed: int = 0, **changes: object) -> Results:
    study = make_study(name=f"on-{version}", blocks=blocks, **{"factors": make_factors(THREE), **changes})
    design = make_design(study)
    records = [record for record, _ in make_records(study, design, effects=effects, noise=0.005, seed=seed)]
    for index, record in enumerate(records):
        packages = {**record.environment.packages, "torch": version}
        records[index] = replace(record, environment=replace(record.environment, packages=packages))
    return analyze_trials(study, design, [Trial(record=r, folder=Path("none")) for r in records])


def test_what_one_stack_lost_is_found() -> None:
    found = compare(stack("2.7.0", {"sync_free": 0.05}), stack("2.13.0", {"sync_free": 0.01}, seed=1))
    rows = {(r.response, r.kind, r.subject): r for r in found.differences}
    sync = rows["steady", "optimization", "sync_free"]
    assert sync.ratio == pytest.approx(math.exp(-0.04), abs=0.01)
    assert sync.differs and sync.simultaneous is not None and sync.simultaneous[1] < 1.0
    assert not rows["steady", "optimization", "tensor_lr"].differs
    assert dict(found.environment) == {"packages.torch": ("2.7.0", "2.13.0")}
    assert found.warnings == ()


def test_welch_by_hand() -> None:
    # var 1 and 4, three blocks each: se^2 = 1/3 + 4/3, df = (5/3)^2 / ((1/9 + 16/9) / 2) = 50/17
    found = difference_interval([0.0, 1.0, 2.0], [2.0, 4.0, 6.0])
    assert found is not None
    assert found[0] == pytest.approx(3.0)
    assert found[1] / math.sqrt(5 / 3) == pytest.approx(3.2187, abs=2e-3)  # t(2.94; .975)
    assert difference_interval([1.0], [1.0, 2.0]) is None


@pytest.mark.parametrize(("sizes", "spreads"), [((5, 5), (1.0, 1.0)), ((5, 8), (1.0, 3.0))])
def test_intervals_of_differences_hold(sizes: tuple[int, int], spreads: tuple[float, float]) -> None:
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(3000):
        pair = [generator.normal(0.0, s, n) for s, n in zip(spreads, sizes, strict=True)]
        mean, half = difference_interval(*pair) or (0.0, 0.0)
        covered += abs(mean) <= half
    assert 0.935 <= covered / 3000 <= 0.97


def test_other_settings_are_warned_about_and_missing_effects_say_why() -> None:
    other = stack(
        "2.13.0", {}, blocks=2, factors=make_factors(["dynamic_shapes", "tensor_lr"]), timing=Timing(epochs=4)
    )
    found = compare(stack("2.7.0", {}), other)
    assert any("timing differs: epochs 3 against 4" in text for text in found.warnings)
    assert any("only one of the studies varies sync_free" in text for text in found.warnings)
    rows = {(r.response, r.kind, r.subject): r for r in found.differences}
    sync = rows["steady", "optimization", "sync_free"]
    assert sync.ratio is None and sync.why == "second: not part of that study"
    assert rows["steady", "total", ""].grade == "pilot" and not rows["steady", "total", ""].differs
