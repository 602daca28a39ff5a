"""What no trial could train is refused by `plan` as by `run`, before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ablate.cli import main
from ablate.core.errors import UserError
from ablate.core.optimization import Level, OptimizationInfo
from ablate.core.recipe import TORCH_SETTINGS
from ablate.core.study import Factor
from ablate.design.cells import make_design
from ablate.run.plan.check import check_trainable
from builders import make_study, make_workloads

SPEC = """\
study: small
workloads: [hm/user-churn]
data: {dataset: look-alike, scale: tiny}
optimizations: {OPTIMIZATIONS}
design: [eager, naive, full]
device: cpu
"""
OWN = """\
from ablate.core.optimization import Level, OptimizationInfo

INFO = OptimizationInfo(
    name="NAME", title="own", layer="x", on="on", off={"today": "off"},
    levels={"on": Level("On.", changes=CHANGES), "off": Level("Off.", changes={})},
)
"""


def call(folder: Path, command: str, capsys: pytest.CaptureFixture[str], **changes: dict[str, Any]) -> tuple[int, str]:
    for name, change in changes.items():
        (folder / f"{name}.py").write_text(OWN.replace("NAME", name).replace("CHANGES", repr(change)))
    spec = folder / "small.yaml"
    spec.write_text(SPEC.replace("OPTIMIZATIONS", ", ".join(f"{name}.py: both" for name in changes)))
    code = main([command, str(spec), "--runs", str(folder / "runs")])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"one": {"copy_policy": "non-blocking"}, "two": {"copy_policy": "other"}}, "one and two both set copy_policy"),
        ({"one": {"torch_settings.flush_denormals": True}}, "torch setting 'flush_denormals' is not known"),
        ({"one": {"dynamo_config.no_such": 1}}, "torch._dynamo.config has no setting 'no_such'"),
        ({"one": {"inductor_config.no_such.thing": 1}}, "torch._inductor.config has no setting 'no_such.thing'"),
    ],
)
def test_plan_refuses_what_run_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, changes: dict[str, Any], sentence: str
) -> None:
    code, err = call(tmp_path, command, capsys, **changes)
    assert code == 1 and sentence in err
    assert not (tmp_path / "runs").exists()


def test_plan_says_of_a_switch_that_it_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "small.yaml"
    for name, change in (("layout", {"memory_format": "channels-last"}), ("already", {"lr_kind": "float"})):
        (tmp_path / f"{name}.py").write_text(OWN.replace("NAME", name).replace("CHANGES", repr(change)))
    text = SPEC.replace("OPTIMIZATIONS", "layout.py: both, already.py: both")
    spec.write_text(text.replace("design: [eager, naive, full]", "design: factorial\nblocks: 1\nequivalence: off"))
    assert main(["plan", str(spec), "--runs", str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert "inert in 5 compiled cells: already (it changes nothing here: on and off give the same recipe)" in out
    assert "trials: 6 cells x 1 workload x 1 block = 6" in out


def test_settings_that_torch_has_pass() -> None:
    changes = {
        "torch_settings.flush_denormal": True, "dynamo_config.cache_size_limit": 4,
        "inductor_config.triton.cudagraphs": False, "step_dynamo_config.recompile_limit": 4,
    }  # fmt: skip
    levels = {"on": Level("On.", changes=changes), "off": Level("Off.", changes={})}
    info = OptimizationInfo(name="own", title="own", layer="x", levels=levels, on="on", off={"today": "off"})
    study = make_study(factors=(Factor(info=info, off_means="today", off="off", on="on"),))
    check_trainable(study, make_design(study))


def test_the_trainer_knows_every_setting_that_passes() -> None:
    from ablate.core.recipe import Recipe
    from ablate.train.session import apply_settings

    with pytest.raises(UserError, match=f"known are {', '.join(TORCH_SETTINGS)}$"):
        apply_settings(Recipe(torch_settings={"no_such": 1}), None)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ((), "is not a RelBench dataset: it has no manifest.yaml"),
        ((".", "tasks/item-sales"), "has no task 'user-churn'; it has item-sales"),
    ],
)
def test_a_folder_without_the_data_of_the_workload(tmp_path: Path, parts: tuple[str, ...], sentence: str) -> None:
    for part in parts:
        (tmp_path / part).mkdir(parents=True, exist_ok=True)
        (tmp_path / part / "manifest.yaml").write_text("name: x")
    study = make_study(workloads=make_workloads("hm/user-churn", dataset=str(tmp_path), scale=None))
    with pytest.raises(UserError, match=sentence):
        check_trainable(study, make_design(study))
