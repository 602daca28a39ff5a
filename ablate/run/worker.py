"""A device and a study -> the environment of this worker, which a block must not change, as names and values."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping

from ablate.core.packages import EXTENSIONS, PACKAGES, installed_version, training_code
from ablate.core.study import Study
from ablate.run.devices import Device

NOT_MEASURED = ("optuna",)


def describe_worker(device: Device, study: Study) -> dict[str, str]:
    """Host, device, threads, versions and code: what must be equal for two workers to train trials of one block."""
    facts = {
        "host": socket.gethostname(),
        "device": device.name,
        "num_cpus": str(os.cpu_count()),
        "num_threads": str(study.num_threads or os.environ.get("OMP_NUM_THREADS", "all")),
        "python": platform.python_version(),
        "code": training_code(),
    }
    if device.kind == "cuda":
        facts["driver"] = device.driver
    versions = {name: installed_version(name) for name in (*PACKAGES, *EXTENSIONS) if name not in NOT_MEASURED}
    return facts | {name: version for name, version in versions.items() if version is not None}


def describe_difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs between two environments, e.g. `torch 2.12.0 there, 2.13.0 here`; empty when nothing does."""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(f"{name} {there.get(name, 'absent')} there, {here.get(name, 'absent')} here" for name in names)
