"""Designed cells -> planned trials in random order inside each block, and the parity trials compared with eager."""

import hashlib
import re
from collections.abc import Iterable, Sequence

import numpy as np

from ablate.core.cell import DesignedCell, PlannedTrial, Purpose
from ablate.core.study import Equivalence, Study

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
    measured = _distinct(cells)
    return tuple(
        trial
        for block in range(study.blocks)
        for workload in study.workloads
        for trial in _block_trials(study, workload.name, block, measured)
    )


def _block_trials(study: Study, workload: str, block: int, measured: tuple[DesignedCell, ...]) -> list[PlannedTrial]:
    generator = np.random.default_rng([study.seed, _stable_number(workload), block])
    cells = [measured[index] for index in generator.permutation(len(measured))]
    keys = [f"{workload}/b{block}/{cell.effective_key}" for cell in cells]
    return _in_turn(study, workload, block, keys, cells)


def _in_turn(
    study: Study,
    workload: str,
    block: int,
    keys: Sequence[str],
    cells: Sequence[DesignedCell],
    purpose: Purpose = "timed",
    windows: tuple[int, ...] = (),
) -> list[PlannedTrial]:
    """The trials of a block in their order; the first parity trial is the reference of the others."""
    parity = purpose == "parity"
    return [
        PlannedTrial(
            key=key,
            slug=make_slug(
                workload=workload, block=block, name=f"parity-{cell.name}" if parity else cell.name, key=key
            ),
            workload=workload,
            block=block,
            seed=study.seed + block,
            order=order,
            cell=cell,
            purpose=purpose,
            windows=windows,
            reference=keys[0] if parity and order else None,
        )
        for order, (key, cell) in enumerate(zip(keys, cells, strict=True))
    ]


def _distinct(cells: Iterable[DesignedCell]) -> tuple[DesignedCell, ...]:
    """Of cells with one effective key the first."""
    first: dict[str, DesignedCell] = {}
    for cell in cells:
        first.setdefault(cell.effective_key, cell)
    return tuple(first.values())


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


END_STEPS = 50
USUAL_RERUNS = 5


def arms_to_test(study: Study) -> tuple[str, ...]:
    """Arms whose training is compared with eager by default, eager first: naive, full, and without each optimization.

    They are compared whatever the design measures: what was claimed of `full` has to hold there too. A spec may name
    fewer or others.
    """
    if study.equivalence.arms:
        return tuple(dict.fromkeys(("eager", *study.equivalence.arms)))
    return ("eager", "naive", "full", *(f"without-{factor.name}" for factor in study.varying))


def resolve_windows(equivalence: Equivalence, num_steps: int) -> tuple[int, ...]:
    """First steps of the windows, ascending: `middle` is half way, `end` 50 steps before the last.

    Those behind the last of `num_steps` steps are left out; so are repetitions.
    """
    places = {"middle": num_steps // 2, "end": max(0, num_steps - END_STEPS)}
    starts = {places[window] if isinstance(window, str) else window for window in equivalence.windows}
    return tuple(sorted(start for start in starts if start < num_steps))


def plan_parity(study: Study, cells: Sequence[DesignedCell], arms: Sequence[DesignedCell]) -> tuple[PlannedTrial, ...]:
    """Plan the parity trials of a study, block by block and workload by workload, eager first in each.

    Args:
        study: Says which parity trials there are, and their windows.
        cells: All cells of the design.
        arms: The cells behind `arms_to_test`, eager first.

    Returns:
        `default`: the arms, in the first block, with the first window. `all`: every setting of the design (repeats of
        one left out) and eager, in every block, with all windows. `off`: nothing. One trial per effective key.
    """
    equivalence = study.equivalence
    windows = resolve_windows(equivalence, study.timing.epochs * study.timing.steps_per_epoch)
    if equivalence.parity == "off" or not windows:
        return ()
    tested: Iterable[DesignedCell] = arms
    blocks = 1
    if equivalence.parity == "all":
        tested, blocks = [arms[0], *(cell for cell in cells if not cell.cell.repeat)], study.blocks
    else:
        windows = windows[:1]
    distinct = _distinct(tested)
    return tuple(
        trial
        for block in range(blocks)
        for workload in study.workloads
        for trial in _parity_block_trials(study, workload.name, block, windows, distinct)
    )


def _parity_block_trials(
    study: Study, workload: str, block: int, windows: tuple[int, ...], cells: Sequence[DesignedCell]
) -> list[PlannedTrial]:
    """The trials of one workload and block; what a trial is compared over is part of its key."""
    steps = [",".join(map(str, windows)), str(study.equivalence.window_steps)]
    if study.equivalence.reruns != USUAL_RERUNS:
        steps.append(str(study.equivalence.reruns))
    keys = [f"{workload}/b{block}/parity({'|'.join(steps)})/{cell.effective_key}" for cell in cells]
    return _in_turn(study, workload, block, keys, cells, "parity", windows)
