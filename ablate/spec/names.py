"""A name or `path/to/file.py` in a spec -> the optimization or workload behind it, from the catalog or the file."""

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar, cast

from ablate.core.errors import UserError, did_you_mean
from ablate.core.optimization import OptimizationInfo
from ablate.core.workload import WorkloadInfo
from ablate.plugins.registry import Catalog
from ablate.spec.errors import clean

Info = TypeVar("Info", OptimizationInfo, WorkloadInfo)
ALLOWED = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,63}$")


@dataclass(frozen=True, kw_only=True)
class Found(Generic[Info]):
    """What stands behind a name; `path` is the absolute path of the outside file, if it came from one."""

    info: Info
    path: str | None = None


@dataclass(kw_only=True)
class Names:
    """Looks names up, loading each outside file once.

    Attributes:
        catalog: Built-in and installed entries, and the loaders of outside files.
        folder: Folder of the spec; paths in the spec are relative to it.
        by_name: Workloads whose files the spec gives, so that the command line can name them.
        loaded: Outcome of each outside file.
    """

    catalog: Catalog
    folder: Path
    by_name: dict[str, Found[WorkloadInfo]] = field(default_factory=dict)
    loaded: dict[tuple[str, Path], OptimizationInfo | WorkloadInfo | UserError] = field(default_factory=dict)

    def optimization(self, name: str) -> Found[OptimizationInfo]:
        """Find an optimization.

        Raises:
            UserError: unknown name, or a file that cannot be used.
        """
        if not _is_file(name):
            return _known("optimization", name, self.catalog.optimizations)
        path = (self.folder / name).resolve()
        info = self._load("optimization", path, self.catalog.load_optimization)
        return Found(info=info, path=str(path))

    def workload(self, name: str, *, from_command_line: bool = False) -> Found[WorkloadInfo]:
        """Find a workload; a path of the command line is relative to the current folder.

        Raises:
            UserError: unknown name, or a file that cannot be used.
        """
        if from_command_line and name in self.by_name:
            return self.by_name[name]
        if not _is_file(name):
            return _known("workload", name, self.catalog.workloads)
        path = ((Path.cwd() if from_command_line else self.folder) / name).resolve()
        info = self._load("workload", path, self.catalog.load_workload)
        return Found(info=info, path=str(path))

    def remember_files(self, texts: object) -> None:
        """Load the workload files that a spec lists; those that cannot be used are passed over here."""
        for item in texts if isinstance(texts, list) else ():
            text = item.get("use") if isinstance(item, dict) else item
            if isinstance(text, str) and _is_file(text):
                with suppress(UserError):
                    found = self.workload(text)
                    self.by_name[found.info.name] = found

    def _load(self, kind: str, path: Path, load: Callable[[Path], Info]) -> Info:
        if (kind, path) not in self.loaded:
            self.loaded[kind, path] = _outcome(path, load)
        outcome = self.loaded[kind, path]
        if isinstance(outcome, UserError):
            raise outcome
        return cast(Info, outcome)


def _outcome(path: Path, load: Callable[[Path], Info]) -> Info | UserError:
    try:
        info = load(path)
    except UserError as error:
        return error
    if not ALLOWED.match(info.name):
        return UserError(f"{path} is called '{clean(info.name)}'; a name has letters, digits, '_', '.', '/' and '-'")
    return info


def _is_file(name: str) -> bool:
    return name.endswith(".py")


def _known(kind: str, name: str, known: Mapping[str, Info]) -> Found[Info]:
    if name in known:
        return Found(info=known[name])
    raise UserError(f"unknown {kind} '{clean(name)}'{did_you_mean(name, known)}")


def file_digest(path: str | None) -> str | None:
    """Digest (16 hex digits) of an outside file; None for a built-in name."""
    return None if path is None else hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
