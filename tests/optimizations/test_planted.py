"""Through real trials: an optimization that does nothing is `vacuous`, one workload's limit is not another's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.analysis.analyze import analyze
from ablate.analysis.speed.evidence import flags
from ablate.analysis.words.speed import evidence_reason
from ablate.core.recipe import Recipe
from ablate.core.study import ExplicitCell, Factor, Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.plugins.registry import load_outside
from ablate.records.store import read_record
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from ablate.train.session import build_workload
from ablate.workloads.contract import sizes
from builders import make_factors
from real_parts import tiny_graph, tiny_study

NOTHING = '''"""Something else in the recipe, and the same training."""

from ablate.core.optimization import Expectation, Level, OptimizationInfo

INFO = OptimizationInfo(
    name="placebo", title="placebo", layer="runtime", on="on", off={"today": "off"},
    levels={"on": Level("A variable that nobody reads.", changes={"environment.PLACEBO": "1"}),
            "off": Level("Nothing.", changes={})},
    expectations=(Expectation(counter="compiles.forward", direction="fewer", sentence="fewer compilations"),
                  Expectation(counter="syncs_per_step", direction="fewer", sentence="fewer syncs")),
)
'''

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def train(folder: Path, study: Study):
    tiny_graph()
    study = replace(study, compile_backend="eager")
    paths = StudyPaths.of(study.name, runs=folder / "runs", reports=folder / "reports")
    run_study(study, make_design(study), paths, SilentProgress())
    return paths


def test_an_optimization_that_does_nothing_is_vacuous_and_never_claimed(tmp_path):
    path = tmp_path / "placebo.py"
    path.write_text(NOTHING)
    placebo = Factor(
        info=load_outside("optimizations", path).INFO, off_means="today", off="off", on="on", path=str(path)
    )
    study = replace(
        tiny_study("hm/user-churn"), factors=(placebo, *make_factors(["tensor_lr"])), design="leave-one-out"
    )
    results = analyze(train(tmp_path, study))
    verdicts = {v.optimization: v for v in results.evidence}
    assert verdicts["placebo"].verdict == "vacuous"
    assert "compiles.forward is" in evidence_reason(verdicts["placebo"])
    assert verdicts["tensor_lr"].verdict == "bites"  # the same evidence does show what does something
    assert not any(effect.claimed for effect in results.effects if effect.subject == "placebo")


def shapes_of_the_stream(study: Study) -> set[tuple[tuple[str, int], ...]]:
    workload = build_workload(study, "hm/user-churn", Recipe(), seed=0)
    batches = workload.batches(20, 0)
    return {tuple(sizes(workload, batches[index]).items()) for index in range(20)}


def test_past_the_limit_a_cell_is_flagged_and_the_next_workload_starts_anew(tmp_path):
    study = replace(
        tiny_study("hm/user-churn", "hm/item-sales", epochs=2, steps=10),
        factors=make_factors(["dynamic_shapes"], off_means="guide"),
        design="cells",
        cells=(ExplicitCell(arm="naive"),),
    )
    paths = train(tmp_path, study)
    records = {r.identity.workload: r for r in (read_record(p.parent) for p in paths.records.glob("*/record.json"))}
    assert len(records) == 2
    assert len(shapes_of_the_stream(study)) >= 12
    for record in records.values():
        events = [e for e in record.evidence.events if e.function == "forward"]
        assert len({tuple(e.sizes.items()) for e in events}) == 8  # its own budget, whatever trained before
        hit = record.evidence.limit_hits[0]
        flag = next(flag for flag in flags(record) if "forward" in flag)
        assert flag.startswith(f"not really compiled: forward eager after step {hit.step}; limit hit by article ")
        assert f"transactions {hit.sizes['transactions']}" in flag
        assert all(f"transactions {e.sizes['transactions']}" in flag for e in events)
        assert hit.step >= 8
