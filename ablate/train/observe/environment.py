"""This process and machine -> the environment of a trial record, its rounding settings, and why a training failed."""

import os
import platform
import resource
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo.config
import torch._inductor.config

from ablate.core.evidence import Machine, MachineSnapshot
from ablate.core.record import Environment, Failure, TrialRecord
from ablate.core.units import BYTES_PER_GIB
from ablate.plugins.digests import EXTENSIONS, PACKAGES, installed_version, processor_name, training_code
from ablate.train.session import Session

PREFIXES = ("TORCH", "PYTORCH", "TRITON", "OMP_", "MKL_", "CUDA_")


def describe_environment(device: torch.device, git_commit: str | None, before: MachineSnapshot) -> Environment:
    """Versions, device, threads and every variable that steers torch, and the machine before the training."""
    on_gpu = device.type == "cuda"
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        processor=processor_name(),
        num_cpus=os.cpu_count(),
        num_threads=torch.get_num_threads(),
        device=device.type,
        device_name=torch.cuda.get_device_name(device) if on_gpu else processor_name(),
        device_memory_bytes=torch.cuda.get_device_properties(device).total_memory if on_gpu else None,
        driver=before.gpu.driver,
        cuda=torch.version.cuda if on_gpu else None,
        rank=0,
        world_size=1,
        packages={name: v for name in PACKAGES if (v := installed_version(name))},
        extensions={name: v for name in EXTENSIONS if (v := installed_version(name))},
        git_commit=git_commit,
        code=training_code(),
        dynamo_config=_changed(torch._dynamo.config),
        inductor_config=_changed(torch._inductor.config),
        variables={k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIXES)},
        machine=Machine(start=before),
    )


def end_training(record: TrialRecord, device: torch.device, problem: str | None, **found: Any) -> TrialRecord:
    """The record of a training at its end: whether its losses stayed finite, its largest memory, and what was found."""
    on_gpu = device.type == "cuda"
    return replace(
        record,
        status="completed" if problem is None else "non-finite",
        failure=None if problem is None else Failure(reason=problem),
        peak_memory_gib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / BYTES_PER_GIB,
        peak_device_memory_gib=torch.cuda.max_memory_allocated(device) / BYTES_PER_GIB if on_gpu else None,
        peak_reserved_memory_gib=torch.cuda.max_memory_reserved(device) / BYTES_PER_GIB if on_gpu else None,
        **found,
    )


def _changed(config: Any) -> dict[str, str]:
    """Settings of a torch config module that are not at their default."""
    return {name: repr(getattr(config, name)) for name in sorted(config._config) if not config._is_default(name)}


def describe_precision(session: Session) -> dict[str, str]:
    """Settings that decide how numbers are rounded; arms that differ in them are not paired."""
    kinds = {str(p.dtype).removeprefix("torch.") for p in session.workload.model.parameters()}
    on = torch.is_autocast_enabled(session.device.type)
    autocast = str(torch.get_autocast_dtype(session.device.type)).removeprefix("torch.") if on else "off"
    settings = session.recipe.torch_settings
    found = {
        "weights": " and ".join(sorted(kinds)),
        "autocast": session.recipe.autocast or autocast,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "flush_denormal": str(settings.get("flush_denormal", False)).lower(),
    }
    if session.device.type == "cuda":
        found["cudnn.allow_tf32"] = str(torch.backends.cudnn.allow_tf32).lower()
    return found


MEMORY_WORDS = ("can't allocate memory", "out of memory", "Cannot allocate memory", "bad_alloc")


def explain_failure(error: BaseException) -> str:
    """Name the error and its first line; lack of memory is named as such, whichever library noticed it."""
    said = str(error).strip().splitlines()
    line = said[0] if said else "no message"
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or _names_memory(str(error)):
        told = "" if not said else f": {next((part for part in said if _names_memory(part)), line).strip()}"
        return f"out of memory ({type(error).__name__}{told})"
    return f"{type(error).__name__}: {line}"


def _names_memory(text: str) -> bool:
    return any(words in text for words in MEMORY_WORDS)
