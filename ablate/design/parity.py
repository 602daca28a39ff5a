"""A study and its cells -> the parity trials, which train the same steps as eager with everything aligned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ablate.core.cell import DesignedCell, PlannedTrial
from ablate.core.study import Equivalence, Study
from ablate.design.trials import make_slug

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
    first: dict[str, DesignedCell] = {}
    for cell in tested:
        first.setdefault(cell.effective_key, cell)
    return tuple(
        trial
        for block in range(blocks)
        for workload in study.workloads
        for trial in _block_trials(study, workload.name, block, windows, tuple(first.values()))
    )


def _block_trials(
    study: Study, workload: str, block: int, windows: tuple[int, ...], cells: Sequence[DesignedCell]
) -> list[PlannedTrial]:
    """The trials of one workload and block; what a trial is compared over is part of its key."""
    steps = [",".join(map(str, windows)), str(study.equivalence.window_steps)]
    if study.equivalence.reruns != USUAL_RERUNS:
        steps.append(str(study.equivalence.reruns))
    keys = [f"{workload}/b{block}/parity({'|'.join(steps)})/{cell.effective_key}" for cell in cells]
    return [
        PlannedTrial(
            key=key,
            slug=make_slug(workload=workload, block=block, name=f"parity-{cell.name}", key=key),
            workload=workload,
            block=block,
            seed=study.seed + block,
            order=order,
            cell=cell,
            purpose="parity",
            windows=windows,
            reference=keys[0] if order else None,
        )
        for order, (key, cell) in enumerate(zip(keys, cells, strict=True))
    ]
