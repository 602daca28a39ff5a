"""README and CONTRIBUTING -> what they say about folders, commands, filters and one-file recipes is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOT_OURS = {"runs", "build", "dist", "mlruns", "mlartifacts"}


def folders_in_tree(text: str) -> set[str]:
    """Folders of the annotated tree, two levels deep, e.g. {"ablate", "ablate/core"}."""
    section = text.partition("## Where things are")[2].partition("```")[2].partition("```")[0]
    found, parent = set(), ""
    for line in section.strip("\n").splitlines():
        name = line.split()[0].rstrip("/")
        parent = parent if line.startswith(" ") else name
        found.add(f"{parent}/{name}" if line.startswith(" ") else name)
    return found


def folders_on_disk() -> set[str]:
    """Top-level folders with something in them, and the packages of `ablate/`."""
    places = [path for path in (*ROOT.iterdir(), *(ROOT / "ablate").iterdir()) if path.is_dir()]
    return {
        path.relative_to(ROOT).as_posix()
        for path in places
        if not path.name.startswith((".", "__")) and path.name not in NOT_OURS and any(path.rglob("*.*"))
    }


def test_the_annotated_tree_is_the_tree():
    tree, disk = folders_in_tree(README), folders_on_disk() | {"reports", "studies"}
    assert tree - disk == set(), "in the README only"
    assert disk - tree == set(), "missing in the README"


def test_every_folder_of_the_tree_is_annotated():
    section = README.partition("## Where things are")[2].partition("```")[2].partition("```")[0]
    assert all(len(line.split()) > 2 for line in section.strip("\n").splitlines())


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_what_the_two_commands_write_is_ignored_and_never_committed():
    written = [
        "reports/hm-smoke/report.pdf",
        "runs/hm-smoke/records",
        "mlflow.db",
        "build/x",
        ".hypothesis/x",
        ".venv/x",
    ]
    assert git("check-ignore", "--no-index", *written) == written
    assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == []


def git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.split()


def test_ci_runs_the_readmes_test_command():
    commands = README.partition("## Two commands")[2].partition("```")[2].partition("```")[0]
    named = [line.partition("#")[0].strip() for line in commands.strip().splitlines()]
    assert named == ["make smoke", "make test"]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "make test" in script and "make lint" in script
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_the_command_table_is_the_command_line():
    from typer.main import get_command

    from ablate.cli import app

    root = get_command(app)
    there = {name for name, command in root.commands.items() if not hasattr(command, "commands")}
    nested = ((name, command) for name, command in root.commands.items() if hasattr(command, "commands"))
    there |= {f"{name} {inner}" for name, command in nested for inner in command.commands}
    named = re.findall(r"^\| `ablate ([a-z ]+?)[ `A-Z]*\|", README, flags=re.M)
    assert sorted(named) == sorted(there)


def test_every_study_of_the_readme_exists():
    named = set(re.findall(r"`(studies/[a-z0-9]+\.yaml)`", README))
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "studies").glob("*.yaml")}
    assert named == there


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_documents_link_only_to_files_that_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


def recipes() -> dict[str, str]:
    """Python blocks of CONTRIBUTING that show a whole file, by the path in the line above the block."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^`([\w/]+\.py)`:\n\n```python\n(.*?)^```", text, flags=re.M | re.S))


def test_the_optimization_recipe_loads_and_changes_the_recipe(tmp_path):
    from ablate.core.recipe import Recipe
    from ablate.plugins.registry import apply_of, load_outside

    path = tmp_path / "matmul_precision.py"
    path.write_text(recipes()["mine/matmul_precision.py"])
    apply = apply_of(load_outside("optimizations", path))
    assert apply(Recipe(), "high").torch_settings == {"float32_matmul_precision": "high"}
    assert apply(Recipe(), "highest") == Recipe()


def test_the_workload_recipe_loads(tmp_path):
    from ablate.plugins.registry import load_outside

    path = tmp_path / "smoothed_churn.py"
    path.write_text(recipes()["mine/smoothed_churn.py"])
    module = load_outside("workloads", path)
    assert module.INFO.name == "mine/smoothed-churn"
    assert callable(module.build)


def test_the_figure_recipe_draws(tmp_path):
    import importlib.util
    from types import SimpleNamespace

    from matplotlib.figure import Figure

    path = tmp_path / "peak_memory.py"
    path.write_text(recipes()["ablate/figures/peak_memory.py"])
    spec = importlib.util.spec_from_file_location("peak_memory_recipe", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    trials = [
        SimpleNamespace(name=name, completed=True, peak_memory_gib=gib)
        for name, gib in [("eager", 1.0), ("full", 2.5), ("eager", 1.5)]
    ]
    info = module.info(SimpleNamespace(name="w", quality=SimpleNamespace(trials=trials)))
    assert (info.names, info.peak_gib) == (("eager", "full"), (1.5, 2.5))
    axes = Figure().subplots(1, module.panels(info), squeeze=False)[0]
    module.draw(info, axes)
    assert [bar.get_width() for bar in axes[0].patches] == [1.5, 2.5]
    assert module.describe(info) == "Peak memory of each cell of w, from 1.5 to 2.5 GiB."
    assert module.info(SimpleNamespace(name="other", quality=SimpleNamespace(trials=[]))) is None
    assert {"TITLE", "ORDER", "height_in"} <= set(dir(module))
