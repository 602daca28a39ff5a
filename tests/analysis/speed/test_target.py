"""Designs and noise -> what every kind of number needs; a pilot's noise is recovered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.analysis.speed.target import assumed_noise, blocks_of_design, make_needs, pilot_noise
from ablate.analysis.trials.comparable import Trial
from ablate.design.cells import make_design
from builders import make_study
from simulated import make_records

THREE = ("dynamic_shapes", "tensor_lr", "sync_free")


def test_needs_of_the_factorial_have_the_variances_of_the_specification() -> None:
    study = make_study(device="cuda", blocks=5)
    noise = assumed_noise(study)
    needs = {need.kind: need for need in make_needs(study, make_design(study), noise, 0.02, 5)}
    assert needs["optimization"].variance == pytest.approx(0.213, abs=5e-4)
    assert needs["interaction"].variance == pytest.approx(0.667, abs=5e-4)
    assert needs["leave-one-out"].variance == 2.0
    half = replace(study, design="fraction")
    fraction = {need.kind: need for need in make_needs(half, make_design(half), noise, 0.02, 5)}
    assert fraction["optimization"].variance == pytest.approx(16 / 64)
    assert blocks_of_design(study, make_design(study), noise, 0.02) == needs["optimization"].blocks_for_target


def test_noise_of_a_pilot_is_recovered() -> None:
    study = make_study(blocks=8)
    design = make_design(study)
    records = [record for record, _ in make_records(study, design, noise=0.03, seed=4)]
    found = pilot_noise(study, design, [Trial(record=r, folder=Path("none")) for r in records])
    assert found is not None
    assert found.trial_sd == pytest.approx(0.03, rel=0.15)
    assert pilot_noise(study, design, []) is None
