"""Folders, entry points and outside files -> modules with an `INFO`, and the `Catalog` of what a spec may name.

The registry is the folder: a module in or below `ablate/optimizations/` or `ablate/workloads/` whose text assigns
`INFO` at the top level is registered under `INFO.name`. Modules without it are never imported, and those with it import
torch only inside functions, so a catalog needs no torch.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Literal, cast

from ablate.core.errors import UserError
from ablate.core.optimization import Level, OptimizationInfo
from ablate.core.recipe import Apply, Recipe
from ablate.core.workload import WorkloadInfo

Kind = Literal["optimizations", "workloads"]
INFO_TYPES: dict[Kind, type] = {"optimizations": OptimizationInfo, "workloads": WorkloadInfo}


def find_module(kind: Kind, name: str, path: str | Path | None = None) -> ModuleType:
    """Find the module behind a name of the study, or behind its outside file.

    Raises:
        UserError: nothing has that name, or the file cannot be used.
    """
    if path is not None:
        return load_outside(kind, Path(path))
    modules = load_kind(kind)
    if name not in modules:
        raise UserError(f"no installed entry of {kind} is called {name!r}; there are {', '.join(sorted(modules))}")
    return modules[name]


def apply_of(module: ModuleType) -> Apply:
    """The function (recipe, level) -> recipe of an optimization's module: the level's data, or else its own `apply`."""

    def apply(recipe: Recipe, level: str) -> Recipe:
        changes = module.INFO.levels[level].changes
        return cast(Apply, module.apply)(recipe, level) if changes is None else recipe.with_changes(changes)

    return apply


def load_kind(kind: Kind) -> dict[str, ModuleType]:
    """Load the modules of `ablate.<kind>` and of the entry-point group of that name, by `INFO.name`."""
    group = f"ablate.{kind}"
    modules = load_folder(group)
    for name, module in load_entry_points(group).items():
        if modules.get(name, module) is not module:
            raise UserError(
                f"{module.__file__} registers {name!r} in {group}, which {modules[name].__file__} already has; "
                "uninstall or rename one of them"
            )
        modules[name] = module
    for module in modules.values():
        _check(kind, module, str(module.__file__))
    return modules


def load_folder(package_name: str) -> dict[str, ModuleType]:
    """Import the modules of a package that assign a top-level `INFO`, by `INFO.name` in file-name order.

    Raises:
        UserError: two modules have one name, or one is not valid Python or declares what cannot be.
    """
    spec = importlib.util.find_spec(package_name)
    folders = list(spec.submodule_search_locations or []) if spec else []
    modules: dict[str, ModuleType] = {}
    for path, root in sorted((path, top) for top in folders for path in Path(top).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "INFO" not in text or not has_info(text, str(path)):  # the first half spares parsing most files
            continue
        with _named(str(path)):
            module = importlib.import_module(".".join((package_name, *path.relative_to(root).with_suffix("").parts)))
        name = module.INFO.name
        if name in modules:
            raise UserError(f"{path} and {modules[name].__file__} are both called {name!r}; rename one of them")
        modules[name] = module
    return modules


def load_entry_points(group: str) -> dict[str, ModuleType]:
    """Load the modules that installed distributions offer in an entry-point group, by `INFO.name`.

    Raises:
        UserError: an entry point cannot be imported or has no `INFO`.
    """
    modules: dict[str, ModuleType] = {}
    for entry in entry_points(group=group):
        where = f"entry point {entry.value} of {entry.dist.name if entry.dist else 'an installed distribution'}"
        try:
            with _named(where):
                module = entry.load()
        except (ImportError, AttributeError, SyntaxError) as error:
            raise UserError(f"{where} cannot be loaded ({error}); repair or uninstall it") from error
        if not hasattr(getattr(module, "INFO", None), "name"):
            raise UserError(f"{where} has no INFO; it must name a module with a top-level INFO")
        modules[module.INFO.name] = module
    return modules


def load_file(path: Path) -> ModuleType:
    """Import an outside file that assigns a top-level `INFO`.

    Raises:
        UserError: the file is missing, is not Python, has no `INFO`, or raises when imported.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{path} cannot be read: {reason}; check the path in the spec") from error
    if not has_info(text, str(path)):
        raise UserError(f"{path} has no INFO; assign a top-level INFO as the built-in files do")
    return _execute(path)


def load_outside(kind: Kind, path: Path) -> ModuleType:
    """Import an outside file and check that it is what a spec expects at that place.

    Raises:
        UserError: as `load_file`, or its INFO is of the wrong kind, or a level changes nothing that is known.
    """
    module = load_file(path)
    _check(kind, module, str(path))
    return module


def has_info(text: str, filename: str) -> bool:
    """Tell from its text whether a module assigns `INFO` at the top level.

    Raises:
        UserError: it is not valid Python.
    """
    try:
        tree = ast.parse(text, filename)
    except (SyntaxError, ValueError) as error:
        line, said = getattr(error, "lineno", None), getattr(error, "msg", error)
        where = filename if line is None else f"{filename}:{line}"
        raise UserError(f"{where}: not valid Python ({said}); correct it first") from error
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "INFO" for target in targets):
            return True
    return False


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Name the file whose INFO declares what cannot be."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _execute(path: Path) -> ModuleType:
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"ablate_outside_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while it is still being imported
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # somebody else's file can raise anything
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        said = "" if isinstance(error, UserError) else f" fails when imported: {type(error).__name__}"
        raise UserError(f"{where}{said}: {error}") from error
    return module


def _check(kind: Kind, module: ModuleType, where: str) -> None:
    expected = INFO_TYPES[kind]
    if not isinstance(module.INFO, expected):
        raise UserError(f"{where}: INFO is a {type(module.INFO).__name__}; {kind} need a {expected.__name__}")
    if isinstance(module.INFO, OptimizationInfo):
        _check_levels(module.INFO, module, where)


def _check_levels(info: OptimizationInfo, module: ModuleType, where: str) -> None:
    for name, level in info.levels.items():
        if not isinstance(level, Level):
            raise UserError(
                f"{where}: level {name!r} is a {type(level).__name__}; write Level(sentence, changes={{...}})"
            )
        if level.changes is None and not callable(getattr(module, "apply", None)):
            raise UserError(
                f"{where}: level {name!r} says nothing that it changes; give it changes={{...}}, or add a function "
                "apply(recipe, level) beside INFO"
            )
        try:
            Recipe().with_changes(level.changes or {})
        except UserError as error:
            raise UserError(f"{where}: level {name!r}: {error}") from error
    if info.counters and not callable(getattr(module, "count", None)):
        raise UserError(f"{where} names counters but has no function count(session); add it beside INFO")


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """Everything a spec can name: built-in and installed entries, and loaders for `path/to/file.py` entries.

    The loaders raise `UserError` with one sentence when the file is missing or has no INFO.
    """

    optimizations: Mapping[str, OptimizationInfo]
    workloads: Mapping[str, WorkloadInfo]
    load_optimization: Callable[[Path], OptimizationInfo]
    load_workload: Callable[[Path], WorkloadInfo]


def make_catalog() -> Catalog:
    """Collect every built-in and installed optimization and workload.

    Raises:
        UserError: an installed entry point is broken, or two entries share a name.
    """
    return Catalog(
        optimizations={name: module.INFO for name, module in load_kind("optimizations").items()},
        workloads={name: module.INFO for name, module in load_kind("workloads").items()},
        load_optimization=lambda path: cast(OptimizationInfo, load_outside("optimizations", path).INFO),
        load_workload=lambda path: cast(WorkloadInfo, load_outside("workloads", path).INFO),
    )
