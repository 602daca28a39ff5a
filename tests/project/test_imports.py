"""Every import statement of `ablate/` -> it points down the ladder, and third-party packages stay with their owner."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.plugins.registry import has_info

ROOT = Path(__file__).resolve().parents[2]
LADDER = (
    "core", "files", "plugins", "spec", "design", "records",
    "workloads", "optimizations", "train", "run",
    "analysis", "track", "figures", "report",
    "cli",
)  # fmt: skip
SHARED = ("core", "files", "plugins", "spec", "design", "records")
RUN_ARM = ("workloads", "optimizations", "train", "run")
READ_ARM = ("analysis", "track", "figures", "report")
OWNERS = {
    "pydantic": ("spec",),
    "pydantic_core": ("spec",),
    "ruamel": ("spec",),
    "numpy": LADDER[LADDER.index("design") :],
    "pyarrow": ("records", "workloads", "train", "track", "analysis", "figures"),
    "pandas": ("records", "workloads", "track", "analysis", "figures"),
    "yaml": ("workloads/relational",),
    "sklearn": ("workloads/relational",),
    "sdm_relational_engine": ("workloads/relational",),
    "relbench": ("workloads/relational",),
    "torch": ("workloads", "optimizations", "train"),
    "torch_geometric": ("workloads/relational",),
    "torch_frame": ("workloads/relational",),
    "pyg_lib": ("workloads/relational",),
    "lightning": ("train",),
    "torchmetrics": ("train",),
    "optuna": ("run",),
    "pynvml": ("train/observe", "run"),
    "mlflow": ("track",),
    "sqlalchemy": ("track", "run/ledger"),
    "psycopg2": ("run/ledger",),
    "submitit": ("run/executors",),
    "ray": ("run/executors",),
    "scipy": ("analysis",),
    "seaborn": ("figures",),
    "matplotlib": ("figures",),
    "typst": ("report",),
    "typer": ("cli", "cli.py"),
    "rich": ("cli", "run/progress.py"),
}  # fmt: skip
ALONE = Path("ablate/analysis/statistics")
LAZY_IN = {"sdm_relational_engine": ("workloads",), "mlflow": ("track",)}
HEAVY = ("torch", "torch_geometric", "torch_frame", "relbench", "lightning", "sklearn", "scipy", "matplotlib")


def imports_of(path: Path, text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, dotted module, whether at import time) of every import statement, those in functions included."""
    tree = ast.parse(text)
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, FUNCTIONS) for node in ast.walk(function)}
    inside |= {id(node) for block in ast.walk(tree) if is_typing_block(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        eager = id(node) not in inside
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, eager) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, module, eager) for module in from_modules(path, node))


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_typing_block(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def from_modules(path: Path, node: ast.ImportFrom) -> list[str]:
    """Modules behind `from x import y`: relative ones made absolute, `from ablate import y` taken as `ablate.y`."""
    module = node.module or ""
    if node.level:
        base = path.with_suffix("").parts[: -node.level]
        module = ".".join([*base, *([module] if module else [])])
    if module == "ablate":
        return [f"ablate.{alias.name}" for alias in node.names]
    return [module]


def faults_of(path: Path, text: str) -> list[str]:
    """Faults of one file; `path` is relative to the project, e.g. `ablate/core/cell.py`.

    A file with an INFO (optimization, workload) is read to check a spec, which must need none of the HEAVY packages.
    """
    here = path.with_suffix("").parts[1] if len(path.parts) > 1 else ""
    here = {"__init__": "core", "__main__": "cli"}.get(here, here)
    faults = []
    in_catalog = has_info(text, str(path)) and here in ("optimizations", "workloads")
    for line, module, eager in imports_of(path, text):
        top, *rest = module.split(".")
        if top == "ablate":
            problem = ladder_problem(here, rest[0] if rest else "")
            if problem is None and path.is_relative_to(ALONE) and not module.startswith(".".join(ALONE.parts)):
                problem = "arrays in, arrays out: it imports nothing else of ablate"
        elif top in sys.stdlib_module_names:
            problem = None
        else:
            problem = owner_problem(here, path, top)
            if problem is None and eager and (here in LAZY_IN.get(top, ()) or (in_catalog and top in HEAVY)):
                problem = "import it inside the function that needs it"
        if problem:
            faults.append(f"{path}:{line}: {here} imports {module}: {problem}")
    return faults


def ladder_problem(here: str, there: str) -> str | None:
    if there in ("", "__version__") or here == there:
        return None
    if here not in LADDER or there not in LADDER:
        return "not a package of the ladder"
    if LADDER.index(there) > LADDER.index(here):
        return "it comes later in the ladder"
    if (here in READ_ARM and there in RUN_ARM) or (here in RUN_ARM and there in READ_ARM):
        return "the RUN arm and the READ arm meet only in core, spec, design and records"
    return None


def owner_problem(here: str, path: Path, top: str) -> str | None:
    if top not in OWNERS:
        return "this package has no owner: add it to pyproject.toml and to OWNERS, or do without"
    inner = "/".join(path.parts[1:])
    if not any(inner == place or inner.startswith(f"{place}/") for place in OWNERS[top]):
        return f"it belongs to {', '.join(OWNERS[top])}"
    return None


SOURCES = sorted(path.relative_to(ROOT) for path in (ROOT / "ablate").rglob("*.py"))


def test_every_file_keeps_to_the_ladder_and_the_owners():
    faults = [fault for path in SOURCES for fault in faults_of(path, (ROOT / path).read_text(encoding="utf-8"))]
    assert not faults, "\n" + "\n".join(faults)


def test_the_trainer_knows_no_workload():
    """Nothing in `train` names a workload or a library of one: it trains whatever keeps the contract."""
    found = [
        f"{path}:{line}: {module}"
        for path in SOURCES
        if path.parts[1] == "train"
        for line, module, _ in imports_of(path, (ROOT / path).read_text(encoding="utf-8"))
        if module.startswith(("torch_geometric", "torch_frame", "relbench", "ablate.workloads"))
        and module != "ablate.workloads.contract"
    ]
    assert found == []


def test_every_package_is_on_the_ladder():
    folders = {path.parts[1] for path in SOURCES if len(path.parts) > 2}
    assert folders <= set(LADDER)
    assert set(LADDER) == {*SHARED, *RUN_ARM, *READ_ARM, "cli"}


@pytest.mark.parametrize(
    ("path", "text", "part"),
    [
        ("ablate/core/cell.py", "import ablate.spec.reader", "later in the ladder"),
        ("ablate/core/cell.py", "import numpy", "belongs to design"),
        ("ablate/core/cell.py", "def f():\n    import yaml", "belongs to workloads"),
        ("ablate/run/ledger/ledger.py", "from ablate.track.sync import sync_study", "later in the ladder"),
        ("ablate/track/sync.py", "from ablate.run import ledger", "meet only in"),
        ("ablate/track/sync.py", "from ..train import loop", "meet only in"),
        ("ablate/track/sync.py", "from mlflow import MlflowClient", "inside the function"),
        ("ablate/analysis/speed/effects.py", "def f():\n    import torch", "belongs to workloads"),
        ("ablate/analysis/speed/effects.py", "from optuna.study import Study", "belongs to run"),
        ("ablate/analysis/statistics/tost.py", "from ablate.core.study import Study", "nothing else of ablate"),
        ("ablate/report/pdf.py", "from ablate import cli", "later in the ladder"),
        ("ablate/optimizations/own.py", "import torch\nINFO = 1", "inside the function"),
        ("ablate/workloads/relational/own.py", "import torch_frame\nINFO: int = 1", "inside the function"),
        ("ablate/run/ledger/ledger.py", "import rich.progress", "belongs to cli"),
        ("ablate/design/cells.py", "import requests", "no owner"),
        ("ablate/spec/reader.py", "import ablate.tools", "not a package of the ladder"),
    ],
)
def test_a_planted_violation_is_found(path, text, part):
    faults = faults_of(Path(path), text)
    assert len(faults) == 1 and part in faults[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("ablate/track/sync.py", "if TYPE_CHECKING:\n    from mlflow import MlflowClient"),
        ("ablate/track/sync.py", "from ablate.records.store import read_study\nfrom .content import Point"),
        ("ablate/analysis/statistics/tost.py", "from ablate.analysis.statistics.engine import Array"),
        ("ablate/run/progress.py", "import rich.progress"),
        ("ablate/optimizations/own.py", "INFO = 1\ndef apply(recipe, level):\n    import torch"),
        ("ablate/workloads/relational/gnn.py", "import torch"),
        ("ablate/cli.py", "from ablate.run import ledger\nfrom ablate.report import pdf\nimport typer"),
        ("ablate/run/process/launch.py", "from ablate import __version__"),
    ],
)
def test_what_the_rules_allow_passes(path, text):
    assert faults_of(Path(path), text) == []
