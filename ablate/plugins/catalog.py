"""Names that a spec may use -> what stands behind them (optimizations and workloads, without importing torch)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ablate.core.optimization import OptimizationInfo
from ablate.core.workload import WorkloadInfo
from ablate.plugins.registry import load_kind, load_outside


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
