"""The program itself: help is quick, errors are text, reading commands load neither torch nor optuna."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ablate as package
from ablate.cli.loading import find_paths
from ablate.core.errors import UserError
from ablate.design.cells import make_design
from ablate.files.paths import StudyPaths
from ablate.plugins.registry import make_catalog
from ablate.run.plan.stored_study import store_plan
from ablate.spec.reader import read_study as read_spec

Ablate = Callable[..., tuple[int, str, str]]


def test_version_and_help(ablate: Ablate) -> None:
    assert ablate("--version") == (0, f"ablate {package.__version__}\n", "")
    code, out, _ = ablate("--help")
    assert code == 0
    for command in ("run", "plan", "status", "show", "sync", "analyze", "report", "ui", "data", "init", "schema"):
        assert f"\n  {command} " in out


def test_help_imports_nothing_heavy_and_takes_less_than_a_second() -> None:
    code = (
        "import sys; from ablate.cli import main; main(['--help']);"
        "heavy = {'torch', 'optuna', 'mlflow', 'pandas', 'numpy', 'pydantic', 'scipy'} & set(sys.modules);"
        "sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 5.0  # a loaded machine; the imports above are the point


@pytest.mark.parametrize(
    "arguments", [("plan", "absent.yaml"), ("pla",), ("plan",), ("run", "x.yaml", "--blocks", "many")]
)
def test_user_errors_exit_1(ablate: Ablate, arguments: tuple[str, ...]) -> None:
    code, out, err = ablate(*arguments)
    assert (code, out) == (1, "")
    assert err
    assert "Traceback" not in err


def test_spec_text_in_errors_is_not_markup(ablate: Ablate, spec: Path) -> None:
    spec.write_text("study: x\n'[bold]nonsense[/bold]': 1\n")
    code, _, err = ablate("plan", spec)
    assert code == 1
    assert "[bold]nonsense[/bold]" in err


def test_init_writes_a_spec_that_plans(ablate: Ablate) -> None:
    assert ablate("init", "mine.yaml")[0] == 0
    code, out, _ = ablate("plan", "mine.yaml", "--json")
    assert code == 0
    assert json.loads(out)["study"] == "my-study"
    code, _, err = ablate("init", "mine.yaml")
    assert (code, err) == (1, "mine.yaml exists already; give another name\n")


def test_schema_is_json(ablate: Ablate) -> None:
    code, out, _ = ablate("schema")
    assert code == 0
    assert "optimizations" in json.loads(out)["properties"]


def test_reading_commands_load_neither_torch_nor_optuna(spec: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from ablate.cli import main;"
        "codes = [main([c, sys.argv[1]]) for c in ('status', 'sync', 'analyze', 'report', 'ui')];"
        "import ablate.analysis.analyze, ablate.figures.render, ablate.report.pdf, ablate.track.sync;"
        "print(codes, sorted({'torch', 'optuna'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(spec)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.strip() == "[1, 1, 1, 1, 1] []", done.stderr


def test_data_check_of_an_absent_folder_exits_1(ablate: Ablate) -> None:
    code, _, err = ablate("data", "check", "./absent")
    assert (code, bool(err)) == (1, True)
    code, _, err = ablate("data", "make", "x", "--scale", "gigantic")
    assert (code, "gigantic" in err) == (1, True)


def test_the_report_is_named_after_the_study_wherever_its_records_are(
    ablate: Ablate, spec: Path, tmp_path: Path
) -> None:
    study = read_spec(spec, catalog=make_catalog(), device="cpu")
    store_plan(study, make_design(study), StudyPaths.of(study.name, runs=tmp_path / "runs"))
    (tmp_path / "runs" / "small").rename(tmp_path / "moved")
    for given, runs in ((tmp_path / "moved", "nowhere"), (Path("moved"), "nowhere")):
        paths = find_paths(given, runs=Path(runs), reports=Path("reports"))
        assert (paths.root, paths.report) == (tmp_path / "moved", tmp_path / "reports" / "small")
    with pytest.raises(UserError, match=r"there is no study in .*/runs/small"):
        find_paths(spec, runs=Path("runs"), reports=Path("reports"))


@pytest.mark.parametrize("command", ["analyze", "report"])
def test_a_report_needs_a_folder(command: str, ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    study = read_spec(spec, catalog=make_catalog(), device="cpu")
    store_plan(study, make_design(study), StudyPaths.of(study.name))
    (tmp_path / "taken").write_text("a file")
    code, out, err = ablate(command, spec, "--reports", "taken")
    assert (code, out) == (1, "")
    assert err == (
        f"cannot write {tmp_path}/taken: Not a directory; choose another folder with --reports and run again, every "
        "finished trial is kept\n"
    )
