"""The caller's environment variables -> those of a trial's process: compiler settings scrubbed and set explicitly."""

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import ablate

DROPPED_PREFIXES = ("TORCH", "PYTORCH", "TRITON", "INDUCTOR")
DROPPED_NAMES = frozenset({"CUDA_LAUNCH_BLOCKING", "PYTHONSTARTUP", "PYTHONPROFILEIMPORTTIME"})
SECRET_NAMES = frozenset({"ABLATE_LEDGER", "PGPASSWORD"})  # a trial has nothing to do with the ledger


def child_environment(
    caller: Mapping[str, str],
    *,
    compile_cache: Path,
    recipe_environment: Mapping[str, str],
    num_threads: int | None,
    visible_gpu: str,
) -> dict[str, str]:
    """Environment of one trial.

    Args:
        caller: Environment of the parent.
        compile_cache: Folder of the compile cache.
        recipe_environment: Variables that the recipe sets; they win over everything else.
        num_threads: CPU threads of the study; None keeps what the caller has.
        visible_gpu: Value of `CUDA_VISIBLE_DEVICES`.
    """
    kept = {name: value for name, value in caller.items() if not _dropped(name)}
    kept |= {
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(compile_cache),
        "TRITON_CACHE_DIR": str(compile_cache / "triton"),
        "PYTHONHASHSEED": "0",
        "CUDA_VISIBLE_DEVICES": visible_gpu,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    if num_threads is not None:
        kept |= {"OMP_NUM_THREADS": str(num_threads), "MKL_NUM_THREADS": str(num_threads)}
    return _importable(kept) | dict(recipe_environment)


def _dropped(name: str) -> bool:
    return name.startswith(DROPPED_PREFIXES) or name in DROPPED_NAMES or name in SECRET_NAMES


def _importable(environment: dict[str, str]) -> dict[str, str]:
    """Let the child import the same ablate as the parent when it is not an installed one (its cwd is elsewhere)."""
    root = Path(ablate.__file__).resolve().parents[1]
    installed = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    if root in installed:
        return environment
    path = os.pathsep.join(part for part in (str(root), environment.get("PYTHONPATH", "")) if part)
    return environment | {"PYTHONPATH": path}
