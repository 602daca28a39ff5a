"""Any times -> effects that do not depend on order, names or units, and never a crash on what is missing."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ablate.analysis.analyze import analyze_trials
from ablate.analysis.results.effects import Effect
from ablate.analysis.results.study import WorkloadResults
from ablate.analysis.trials.comparable import Trial
from ablate.core.cell import Design
from ablate.core.record import TrialRecord
from ablate.core.study import Study
from ablate.design.cells import make_design
from builders import make_factors, make_study
from simulated import fail, make_records, timed

NAMES = ("dynamic_shapes", "tensor_lr", "sync_free")
KINDS = ("total", "compile", "optimization", "layer", "interaction", "moebius", "leave-one-out", "add-one-in", "ladder")
STUDY = make_study(factors=make_factors(NAMES), blocks=5)
DESIGN = make_design(STUDY)
PLACES = [(block, key) for block in range(5) for key in DESIGN.effective_keys]
NOWHERE = Path("no-such-folder")
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)


def records_of(study: Study, design: Design, seed: int) -> list[TrialRecord]:
    """Records with times that are different in every trial; they depend on the place only, not on names."""
    base = make_records(study, design)[0][0].times
    every = [replace(record, times=base) for record, _ in make_records(study, design)]
    keys = list(design.effective_keys)
    factors = np.exp(np.random.default_rng(seed).normal(0.0, 0.3, (study.blocks, len(keys))))
    return [timed(r, float(factors[r.identity.block, keys.index(r.identity.effective_key)])) for r in every]


def results_of(records: list[TrialRecord], study: Study = STUDY, design: Design = DESIGN) -> WorkloadResults:
    return analyze_trials(study, design, [Trial(record=record, folder=NOWHERE) for record in records]).workloads[0]


def setting_of(record: TrialRecord) -> tuple[object, ...]:
    """Block and cell, without the order in which its optimizations are written."""
    i = record.identity
    return i.block, i.execution, tuple(sorted(i.levels.items())), "#" in i.effective_key


def numbers(results: WorkloadResults) -> dict[tuple[str, str, str], tuple[float, ...]]:
    """Mean and both ends of both intervals of every effect, as logs."""
    return {(e.response, e.kind, e.subject): logs(e) for e in results.speed.effects if e.estimate is not None}


def logs(effect: Effect) -> tuple[float, ...]:
    est = effect.estimate
    assert est is not None
    ends = (*(est.interval or ()), *(est.simultaneous or ()))
    return (est.effect, *map(math.log, ends))


def assert_same(one: dict, two: dict) -> None:  # type: ignore[type-arg]
    assert one.keys() == two.keys() and len(one) > 30
    for name in one:
        assert np.allclose(one[name], two[name], rtol=0.0, atol=1e-10), name


@FEW
@given(seed=seeds)
def test_order_of_trials_does_not_matter(seed: int) -> None:
    records = records_of(STUDY, DESIGN, seed)
    shuffled = random.Random(seed).sample(records, len(records))
    assert_same(numbers(results_of(records)), numbers(results_of(shuffled)))
    places = random.Random(seed).sample(range(len(records)), len(records))
    moved = [replace(r, identity=replace(r.identity, order=place)) for r, place in zip(records, places, strict=True)]
    assert_same(numbers(results_of(records)), numbers(results_of(moved)))


@FEW
@given(seed=seeds, factor=st.floats(1e-3, 1e6))
def test_unit_and_scale_of_times_do_not_matter(seed: int, factor: float) -> None:
    records = records_of(STUDY, DESIGN, seed)
    scaled = [timed(record, factor) for record in records]
    assert_same(numbers(results_of(records)), numbers(results_of(scaled)))


@FEW
@given(seed=seeds, shifts=st.lists(st.floats(-3, 3), min_size=5, max_size=5))
def test_a_constant_per_block_changes_nothing(seed: int, shifts: list[float]) -> None:
    records = records_of(STUDY, DESIGN, seed)
    shifted = [timed(record, math.exp(shifts[record.identity.block])) for record in records]
    assert_same(numbers(results_of(records)), numbers(results_of(shifted)))


@FEW
@given(seed=seeds)
def test_names_do_not_matter(seed: int) -> None:
    names = dict(zip(NAMES, ("zeta", "alpha, beta]", "<mid> 漢"), strict=True))
    factors = tuple(replace(f, info=replace(f.info, name=names[f.name])) for f in STUDY.factors)
    study = replace(STUDY, factors=factors, name="other-name")
    design = make_design(study)
    before = numbers(results_of(records_of(STUDY, DESIGN, seed)))
    after = numbers(results_of(records_of(study, design, seed), study, design))

    def renamed(subject: str) -> str:
        return " × ".join(names.get(part, part) for part in subject.split(" × "))

    assert_same({(r, k, renamed(s)): value for (r, k, s), value in before.items()}, after)


@FEW
@given(seed=seeds, order=st.permutations(range(3)))
def test_order_of_optimizations_does_not_matter(seed: int, order: list[int]) -> None:
    study = replace(STUDY, factors=tuple(STUDY.factors[i] for i in order))
    design = make_design(study)
    given_times = {setting_of(r): r.times for r in records_of(STUDY, DESIGN, seed)}
    moved = [replace(r, times=given_times[setting_of(r)]) for r, _ in make_records(study, design)]
    one, two = numbers(results_of(records_of(STUDY, DESIGN, seed))), numbers(results_of(moved, study, design))
    for kind in ("total", "compile", "optimization", "layer", "leave-one-out", "add-one-in"):
        for (response, k, subject), value in one.items():
            if k == kind:
                assert np.allclose(value, two[response, k, subject], rtol=0.0, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(missing=st.sets(st.sampled_from(PLACES)), failed=st.sets(st.sampled_from(PLACES)))
def test_missing_trials_never_crash_and_are_named(missing: set[tuple[int, str]], failed: set[tuple[int, str]]) -> None:
    records = []
    for record in records_of(STUDY, DESIGN, 1):
        place = record.identity.block, record.identity.effective_key
        if place in failed:
            records.append(fail(record, "out of memory"))
        elif place not in missing:
            records.append(record)
    gone = missing | failed
    results = results_of(records)
    names = {c.effective_key: c.name for c in reversed(DESIGN.cells)}
    for effect in results.speed.effects:
        if effect.response != "steady" or effect.kind not in KINDS or effect.inert:
            continue
        if effect.refused:
            blocks_with_gaps = {block for block, _ in gone}
            assert blocks_with_gaps == set(range(5))
            assert any(names[key] in text for _, key in gone for text in effect.dropped)
        else:
            assert effect.estimate is not None
            for block in set(range(5)) - set(effect.estimate.blocks):
                assert any(text.startswith(f"block {block}: ") for text in effect.dropped)
    total = results.speed.effect("steady", "total")
    assert total is not None
    needed = {"eager", "full"}
    complete = {b for b in range(5) if not any(names[key] in needed for block, key in gone if block == b)}
    assert set(total.estimate.blocks if total.estimate else ()) == complete
