"""Designed cells -> planned trials: one per workload, block and effective key, in random order inside each block."""

from __future__ import annotations

import hashlib
import re

import numpy as np

from ablate.core.cell import DesignedCell, PlannedTrial
from ablate.core.study import Study

LONGEST_SLUG = 120


def plan_trials(study: Study, cells: tuple[DesignedCell, ...]) -> tuple[PlannedTrial, ...]:
    """Plan the trials of a study, block by block, so that a study that is cut short covers every workload.

    Args:
        study: Gives workloads, number of blocks and the seed.
        cells: All cells of the design; of cells with one effective key, only the first is measured.

    Returns:
        Trials by block, then workload, then random order. Block b has seed `study.seed + b`. The order depends on
        the seed, the workload's name and the block only, not on the other workloads nor on the number of blocks.
    """
    first: dict[str, DesignedCell] = {}
    for cell in cells:
        first.setdefault(cell.effective_key, cell)
    measured = tuple(first.values())
    return tuple(
        trial
        for block in range(study.blocks)
        for workload in study.workloads
        for trial in _block_trials(study, workload.name, block, measured)
    )


def _block_trials(study: Study, workload: str, block: int, measured: tuple[DesignedCell, ...]) -> list[PlannedTrial]:
    generator = np.random.default_rng([study.seed, _stable_number(workload), block])
    trials = []
    for order, index in enumerate(generator.permutation(len(measured))):
        cell = measured[index]
        key = f"{workload}/b{block}/{cell.effective_key}"
        trials.append(
            PlannedTrial(
                key=key,
                slug=make_slug(workload=workload, block=block, name=cell.name, key=key),
                workload=workload,
                block=block,
                seed=study.seed + block,
                order=order,
                cell=cell,
            )
        )
    return trials


def make_slug(*, workload: str, block: int, name: str, key: str) -> str:
    """Build a file name for a trial: readable, unique through 8 hex digits of its key, at most 120 characters."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    fixed = f"--b{block:02d}----{digest}"
    head = _safe(workload)[:48]
    tail = _safe(name)[: LONGEST_SLUG - len(fixed) - len(head)]
    return f"{head}--b{block:02d}--{tail}--{digest}"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "x"


def _stable_number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
