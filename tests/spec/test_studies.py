"""The studies that come with the project read without fault and have the counts that their comments promise."""

from pathlib import Path

import pytest

from ablate.core.study import Study
from ablate.design.cells import make_design
from ablate.plugins.registry import make_catalog
from ablate.spec.reader import read_study

STUDIES = Path(__file__).parents[2] / "studies"


def read(name: str, **options) -> Study:
    return read_study(STUDIES / f"{name}.yaml", catalog=make_catalog(), **options)


@pytest.mark.parametrize(
    ("name", "device", "keys", "trials", "parity"),
    [
        ("smoke", "cpu", 3, 6, 2),
        ("smoke", "cuda", 3, 6, 2),
        ("tasks", "cpu", 3, 18, 6),
        ("ladder", "cpu", 6, 6, 2),
        ("quick", "cuda", 8, 48, 8),  # eager, naive, full, and without each of five
        ("quick", "cpu", 7, 14, 7),
        ("today", "cuda", 36, 648, 24),
        ("today", "cpu", 20, 360, 21),
        ("full", "cuda", 36, 648, 24),
        ("full", "cpu", 20, 360, 21),
        ("resnet50", "cuda", 8, 48, 2),  # eager and compiled with each layout, graphs where compiled, two repeats
        ("resnet50", "cpu", 6, 30, 2),
    ],
)
def test_counts(name, device, keys, trials, parity):
    design = make_design(read(name, device=device))
    assert (len(design.effective_keys), len(design.trials), len(design.parity)) == (keys, trials, parity)


def test_all_studies_are_counted_above():
    named = {"smoke", "tasks", "ladder", "quick", "full", "today", "resnet50"}
    assert {path.stem for path in STUDIES.glob("*.yaml")} == named


def test_every_study_says_what_it_asks_and_all_names_differ():
    studies = [read(path.stem) for path in STUDIES.glob("*.yaml")]
    assert all(study.question.endswith("?") for study in studies)
    assert len({study.name for study in studies}) == len(studies)


def test_one_block_of_one_task_of_the_full_study_on_a_cpu():
    study = read("full", device="cpu", overrides={"workloads": ["hm/user-churn"], "blocks": 1})
    assert len(make_design(study).trials) == 20
    options = study.workload("hm/user-churn").options
    assert (study.profile, options["scale"], options["channels"]) == ("cpu", "tiny", 16)


def test_the_full_study_carries_both_readings_of_the_claim():
    claim = read("full").claim
    assert claim is not None and (claim.speedup, claim.alternative) == ((1.30, 1.35), (1.43, 1.54))


def test_the_full_study_asks_about_the_guides_start_and_its_sibling_about_today():
    full, today = read("full", device="cuda"), read("today", device="cuda")
    assert {f.name for f in full.factors if f.emulation} == {"dynamic_shapes", "tensor_lr", "string_keys"}
    assert not any(f.emulation for f in today.factors)
    assert (full.timing, full.training, full.blocks) == (today.timing, today.training, today.blocks)
