"""Folders and outside files -> modules with an INFO; the sentences people get when a file cannot be used."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ablate.core.errors import UserError
from ablate.core.recipe import Recipe
from ablate.plugins.registry import apply_of, find_module, has_info, load_file, load_folder, load_outside, make_catalog

GUIDE = {"dynamic_shapes", "tensor_lr", "string_keys", "no_cuda_graphs", "sync_free"}
BEYOND = {"sync_metrics", "sync_torchmetrics", "copies", "encode_unique", "channels_last", "fused_optimizer"}
BEYOND |= {"cuda_graphs", "bf16", "deterministic", "compile"}
OUTSIDE = """
from ablate.core.optimization import Level, OptimizationInfo

INFO = OptimizationInfo(
    name="mine", title="mine", layer="runtime", on="yes", off={"today": "no"},
    levels={"yes": Level("On."), "no": Level("Off.", changes={})},
)


def apply(recipe, level):
    return recipe.with_changes({"autocast": "mine"})
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_registry_is_the_folder():
    assert set(load_folder("ablate.optimizations")) == GUIDE | BEYOND


def test_a_catalog_needs_no_torch():
    code = (
        "import sys; from ablate.plugins.registry import make_catalog; c = make_catalog(); "
        "print(len(c.optimizations), 'torch' in sys.modules, 'lightning' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == [str(len(make_catalog().optimizations)), "False", "False"]


def test_every_workload_of_the_catalog_is_found_by_its_name():
    for name in make_catalog().workloads:
        assert find_module("workloads", name).INFO.name == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INFO = 1", True),
        ("INFO: int = 1", True),
        ("def f():\n    INFO = 1", False),
        ("# INFO = 1", False),
        ("x = 'INFO = 1'", False),
        ("from elsewhere import INFO", False),
    ],
)
def test_only_a_top_level_assignment_counts_as_info(text, expected):
    assert has_info(text, "x.py") is expected


def test_modules_without_info_are_never_imported(tmp_path, monkeypatch):
    package = tmp_path / "some_entries"
    write(package / "__init__.py", "")
    write(package / "encoder.py", "raise RuntimeError('imported although it has no INFO')")
    write(package / "one.py", "class INFO:\n    name = 'x'\nINFO = INFO")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(load_folder("some_entries")) == ["x"]


def test_two_modules_of_one_name_are_refused(tmp_path, monkeypatch):
    package = tmp_path / "twin_entries"
    write(package / "__init__.py", "")
    for stem in ("one", "two"):
        write(package / f"{stem}.py", "from types import SimpleNamespace\nINFO = SimpleNamespace(name='x')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"two\.py and .*one\.py are both called 'x'"):
        load_folder("twin_entries")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("INFO = 1\nif\n", r"one\.py:2: not valid Python \(invalid syntax\); correct it first"),
        (OUTSIDE.replace("on=", "requires=('gpu',), on="), r"one\.py: optimization mine: requires 'gpu' is unknown"),
    ],
)
def test_a_built_in_file_that_cannot_be_used_is_named(tmp_path, monkeypatch, text, sentence):
    package = tmp_path / f"broken_entries_{len(text)}"
    write(package / "__init__.py", "")
    write(package / "one.py", text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=sentence):
        load_folder(package.name)


def test_an_outside_optimization_is_loaded_with_its_function(tmp_path):
    path = write(tmp_path / "mine.py", OUTSIDE)
    assert make_catalog().load_optimization(path).name == "mine"
    assert apply_of(find_module("optimizations", "mine", str(path)))(Recipe(), "yes") == Recipe(autocast="mine")


def test_dataclasses_work_in_an_outside_file(tmp_path):
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass(kw_only=True)\nclass Info:\n    name: str\nINFO = Info(name='x')\n"
    )
    assert load_file(write(tmp_path / "with_dataclass.py", text)).INFO.name == "x"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", r"broken\.py has no INFO"),
        ("INFO = (", r"broken\.py:1: not valid Python \('\(' was never closed\)"),
        ("x = 1\nif x\n    y = 2", r"broken\.py:2: not valid Python \(expected ':'\)"),
        ("INFO = '\0'", r"broken\.py: not valid Python \(source code string cannot contain null bytes\)"),
        (
            OUTSIDE.replace("on=", "requires=('cudda',), on="),
            r"broken\.py:4: optimization mine: requires 'cudda' is unknown; did you mean 'cuda'\?",
        ),
        (
            OUTSIDE.replace("on=", "numerics='trainng', on="),
            r"broken\.py:4: optimization mine: numerics 'trainng' is unknown; did you mean 'training'\?",
        ),
        ("y = 1\nINFO = 1 / 0", r"broken\.py:2 fails when imported: ZeroDivisionError: division by zero"),
        ("import not_there\nINFO = 1", r"broken\.py:1 fails when imported: ModuleNotFoundError"),
        ("INFO = 3", r"broken\.py: INFO is a int; optimizations need a OptimizationInfo"),
        (
            OUTSIDE.replace("def apply", "def apples"),
            r"broken\.py: level 'yes' says nothing that it changes; give it changes=.*, or add a function apply",
        ),
        (
            OUTSIDE.replace('Level("On.")', '"On."'),
            r"broken\.py: level 'yes' is a str; write Level\(sentence, changes=",
        ),
        (
            OUTSIDE.replace("changes={}", "changes={'modle.keys': 'string'}"),
            r"broken\.py: level 'no': a recipe has nothing called 'modle\.keys' to set",
        ),
        (OUTSIDE.replace("changes={}", "changes={'model': 'string'}"), r"a recipe has nothing called 'model' to set"),
        (OUTSIDE.replace("on=", "counters={'mine': 'x'}, on="), r"broken\.py names counters but has no function count"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, text, sentence):
    path = write(tmp_path / "broken.py", text)
    with pytest.raises(UserError, match=sentence):
        load_outside("optimizations", path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.py cannot be read: No such file"):
        load_outside("workloads", tmp_path / "gone.py")


class Entry:
    """Stands for an entry point of an installed distribution."""

    value, dist = "plug.in", None

    def __init__(self, module):
        self.module = module

    def load(self):
        if isinstance(self.module, Exception):
            raise self.module
        return self.module


def install(monkeypatch, module):
    entries = {"ablate.optimizations": [Entry(module)]}
    monkeypatch.setattr("ablate.plugins.registry.entry_points", lambda group: entries.get(group, []))


def test_an_installed_optimization_joins_the_catalog(tmp_path, monkeypatch):
    install(monkeypatch, load_file(write(tmp_path / "plug.py", OUTSIDE)))
    assert set(make_catalog().optimizations) == GUIDE | BEYOND | {"mine"}


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (ImportError("no module plug"), r"entry point plug\.in of .* cannot be loaded \(no module plug\)"),
        (
            SyntaxError("bad", ("plug.py", 3, 1, "")),
            r"entry point plug\.in of .* cannot be loaded \(bad \(plug.py, line 3",
        ),
        (SimpleNamespace(), r"entry point plug\.in of .* has no INFO"),
        (
            SimpleNamespace(INFO=SimpleNamespace(name="sync_free"), __file__="plug.py"),
            r"plug\.py registers 'sync_free' in ablate\.optimizations, which .*sync_free\.py already has",
        ),
    ],
)
def test_a_broken_installed_optimization_is_named(monkeypatch, module, sentence):
    install(monkeypatch, module)
    with pytest.raises(UserError, match=sentence):
        make_catalog()


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(UserError, match=r"'speed'; there are bf16, channels_last, compile, copies"):
        find_module("optimizations", "speed")
