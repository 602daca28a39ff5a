"""`plan --target`, `compare`, fractions and sequential studies through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ablate.cli.loading import LoadedStudy
from ablate.cli.pipeline import first_look, next_look
from ablate.cli.targets import parse_ratio
from ablate.core.errors import UserError
from ablate.core.study import Sequential, Study
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from builders import make_factors, make_study
from simulated import make_records, write_study_folder

Ablate = Callable[..., tuple[int, str, str]]
FIVE = "{dynamic_shapes: both, tensor_lr: both, string_keys: both, no_cuda_graphs: both, sync_free: both}"


@pytest.fixture
def wide_spec(spec: Path) -> Path:
    text = spec.read_text().replace("{dynamic_shapes: both, tensor_lr: both}", FIVE)
    spec.write_text(text.replace("[eager, naive, full]", "fraction").replace("blocks: 2", "blocks: 5"))
    return spec


def simulated(root: Path, study: Study, **simulation: object) -> StudyPaths:
    design = make_design(study)
    return write_study_folder(root, study, design, make_records(study, design, **simulation))  # type: ignore[arg-type]


def test_plan_of_a_fraction_prints_its_aliases(ablate: Ablate, wide_spec: Path) -> None:
    code, out, _ = ablate("plan", wide_spec)
    assert code == 0
    assert "9 are measured" in out  # no_cuda_graphs cannot act on a CPU: half of 2^4, and eager
    assert "  dynamic_shapes × tensor_lr = string_keys × sync_free" in out


def test_target_states_blocks_hours_and_when_a_fraction_is_enough(ablate: Ablate, wide_spec: Path) -> None:
    code, out, _ = ablate("plan", wide_spec, "--target", "2%", "--noise", "1.5%", "--price-per-hour", 3)
    assert code == 0
    assert "noise stated: 1.5 % per trial" in out
    assert "a fraction (9 instead of 20 trials a block) is enough when no three optimizations interact" in out
    told = json.loads(ablate("plan", wide_spec, "--target", "2%", "--noise", "0.015", "--json")[1])
    needs = {need["kind"]: need for need in told["needs"]}
    assert needs["optimization"]["variance"] == pytest.approx(0.5)  # 8 cells with weight 1/4 each
    assert [d["design"] for d in told["designs"]] == [
        "factorial", "fraction", "ladder", "leave-one-out", "add-one-in"
    ]  # fmt: skip
    whole = told["designs"][0]
    assert whole["trials"] == whole["blocks"] * 20 and whole["cost"] is None


def test_target_uses_the_noise_and_the_pairs_of_trials_that_ended(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    spec.write_text(spec.read_text().replace("{dynamic_shapes: both, tensor_lr: both}", FIVE))
    assert "assumed, not measured" in ablate("plan", spec, "--target", "2%")[1]
    study = make_study(name="measured", blocks=5)
    paths = simulated(tmp_path, study, noise=0.01)
    design = make_design(study)
    loaded = LoadedStudy(study=study, design=design, trials=design.trials, paths=paths)
    from ablate.cli import targets

    assert targets._large_pairs(loaded) == []
    advice = targets._advice(loaded, list(targets._costs(loaded, targets_noise(), 0.02, None)))
    assert "is enough by the pairs measured so far" in advice


def targets_noise():  # type: ignore[no-untyped-def]
    from ablate.analysis.speed.target import Noise

    return Noise(trial_sd=0.01, source="")


@pytest.mark.parametrize(("text", "value"), [("2%", 0.02), ("0.02", 0.02), (" 1.5 % ", 0.015)])
def test_ratios(text: str, value: float) -> None:
    assert parse_ratio(text, "--target") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "two", "0", "-1%", "200%", "nan"])
def test_wrong_ratios_are_the_users(text: str) -> None:
    with pytest.raises(UserError, match=r"--target wants a ratio such as 2% or 0\.02"):
        parse_ratio(text, "--target")


def test_compare_prints_differences(ablate: Ablate, tmp_path: Path) -> None:
    three = make_factors(["dynamic_shapes", "tensor_lr", "sync_free"])
    for name, gain, seed in (("one", 0.05, 0), ("two", 0.0, 1)):
        study = make_study(name=name, blocks=5, factors=three)
        simulated(tmp_path, study, effects={"sync_free": gain}, noise=0.003, seed=seed)
    code, out, _ = ablate("compare", "runs/one", "runs/two")
    assert code == 0
    line = next(x for x in out.splitlines() if "optimization" in x and "sync_free" in x and "steady" in x)
    assert "differs" in line and "0.95x" in line
    found = json.loads(ablate("compare", "runs/one", "runs/two", "--json")[1])
    assert found["environment"] == {} and found["warnings"] == []
    code, _, err = ablate("compare", "runs/one", "runs/three")
    assert code == 1 and "Traceback" not in err


def test_a_sequential_study_goes_on_until_it_is_narrow_enough(tmp_path: Path) -> None:
    def loaded(blocks: int, target: float, most: int = 40) -> LoadedStudy:
        rule = Sequential(target=target, most=most)
        study = make_study(name=f"s{blocks}-{target}-{most}", blocks=blocks, sequential=rule)
        study = replace(study, factors=make_factors(["dynamic_shapes", "tensor_lr", "sync_free"]))
        design = make_design(study)
        paths = simulated(tmp_path, study, noise=0.02)
        return LoadedStudy(study=study, design=design, trials=design.trials, paths=paths)

    wide = loaded(5, 0.001)
    longer = next_look(wide)
    assert longer is not None and longer.study.blocks == 8
    assert len(longer.trials) == len(wide.trials) * 8 // 5
    assert [t.key for t in longer.design.trials][: len(wide.trials)] == [t.key for t in wide.design.trials]
    assert next_look(loaded(5, 0.5)) is None  # narrow enough
    assert next_look(loaded(8, 0.001, most=8)) is None  # at its end
    fixed = replace(wide, study=replace(wide.study, sequential=None))
    assert next_look(fixed) is None


def test_a_sequential_study_resumes_where_it_was(tmp_path: Path) -> None:
    study = make_study(blocks=8, sequential=Sequential(target=0.01))
    paths = simulated(tmp_path, study)
    again = replace(study, blocks=5)
    design = make_design(again)
    resumed = first_look(LoadedStudy(study=again, design=design, trials=design.trials, paths=paths))
    assert resumed.study.blocks == 8


@pytest.mark.usefixtures("no_tracking")
def test_run_of_a_sequential_study_stops_at_the_first_look_when_nothing_varies(ablate: Ablate, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("blocks: 2", "sequential: {target: 0.02}"))
    code, _, err = ablate("run", spec, "--no-report")
    assert code == 0
    assert "[15/15]" in err and "going on" not in err


@pytest.mark.usefixtures("no_tracking")
def test_a_half_continues_as_the_whole_without_training_anything_twice(ablate: Ablate, wide_spec: Path) -> None:
    wide_spec.write_text(wide_spec.read_text().replace("blocks: 5", "blocks: 1"))
    assert ablate("run", wide_spec, "--no-report")[0] == 0
    wide_spec.write_text(wide_spec.read_text().replace("design: fraction", "design: factorial"))
    code, out, _ = ablate("run", wide_spec, "--no-report", "--json")
    outcome = json.loads(out)["outcome"]
    assert code == 0
    assert (outcome["planned"], outcome["trained"], outcome["completed"]) == (20, 11, 20)
