"""A study that may add blocks -> the blocks it starts with, and after each look whether it goes on."""

from __future__ import annotations

from dataclasses import replace

from ablate.cli.loading import LoadedStudy
from ablate.core.paths import StudyPaths
from ablate.core.study import LOOKS, Study


def first_look(loaded: LoadedStudy) -> LoadedStudy:
    """The study with the blocks it had reached when it was interrupted, so that no look happens between looks."""
    if loaded.study.sequential is None or not loaded.paths.study_json.exists():
        return loaded
    from ablate.records.store import read_study

    reached = read_study(loaded.paths.study_json).blocks
    return with_blocks(loaded, reached) if reached > loaded.study.blocks else loaded


def next_look(loaded: LoadedStudy) -> LoadedStudy | None:
    """The study with the blocks of the next look; None when it is narrow enough, at its end, or not sequential."""
    study = loaded.study
    if study.sequential is None or is_narrow_enough(study, loaded.paths):
        return None
    more = [look for look in LOOKS if study.blocks < look <= study.sequential.most]
    return with_blocks(loaded, more[0]) if more else None


def is_narrow_enough(study: Study, paths: StudyPaths) -> bool:
    """Whether the widest simultaneous interval of every workload is within the target; effects are not looked at."""
    from ablate.analysis.analyze import analyze
    from ablate.analysis.precision import narrow_enough

    assert study.sequential is not None
    return narrow_enough(analyze(paths).effects, study.sequential.response, study.sequential.target)


def with_blocks(loaded: LoadedStudy, blocks: int) -> LoadedStudy:
    """The same study and selection of workloads with another number of blocks."""
    from ablate.design.cells import make_design
    from ablate.run.planning import select_parity, select_trials

    study = replace(loaded.study, blocks=blocks)
    design = make_design(study)
    workloads = list(dict.fromkeys(trial.workload for trial in loaded.trials))
    return replace(
        loaded,
        study=study,
        design=design,
        trials=select_trials(study, design, workloads),
        parity=select_parity(study, design, workloads),
    )
