"""Validation predictions of an arm and of eager -> how far they agree: decisions, values or rankings.

Legend: V validation rows, k ranked places.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ablate.analysis.results.training import Agreement, PredictionKind
from ablate.analysis.statistics.engine import finite
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.analysis.trials.parity import ULP, ParityBlock
from ablate.core.study import Study
from ablate.records.store import read_predictions

CLASSIFIED_BY = ("roc_auc", "accuracy", "average_precision", "f1")
DECISION = 0.0  # score of probability 0.5: a classifier's predictions are log odds
EAGER_RERUN = "eager rerun"
NOT_ALIGNED = "dropout masks are not aligned in timed trials"


def parity_agreement(
    study: Study,
    blocks: Sequence[ParityBlock],
    name_of: Callable[[str], str],
    silent: Mapping[tuple[int, str, int], str],
) -> Iterator[Agreement]:
    """Compare the predictions after the first window with eager's, beside those of eager's own reruns.

    Args:
        silent: Why an arm's window says nothing, by block, arm and window.
    """
    for block in blocks:
        if block.reference not in block.trials:
            continue
        eager = _by_run(block.trials[block.reference].folder)
        if "eager" not in eager:
            continue
        kind = _kind(study, block.workload, eager["eager"])
        others = [(EAGER_RERUN, eager[run], "") for run in sorted(eager) if run.startswith(ULP)]
        for key in block.planned:
            if key != block.reference and not block.why_not(key, block.reference):
                name = name_of(key)
                runs = _by_run(block.trials[key].folder)
                note = silent.get((block.block, name, block.planned[key].windows[0]), "")
                others += [(name, runs["arm"], note)] if "arm" in runs else []
        for name, table, note in others:
            blank = Agreement(arm=name, trials="parity", block=block.block, kind=kind, note=note)
            yield from filter(None, [compare_predictions(blank, table, eager["eager"])])


def timed_agreement(
    study: Study, trials: WorkloadTrials, eager_key: str, arms: Mapping[str, str]
) -> Iterator[Agreement]:
    """Compare the predictions at the end of timed trials with eager's of the same block.

    Args:
        arms: Name by effective key.
    """
    for block in trials.blocks:
        reference = trials.usable.get((block, eager_key))
        eager = _by_run(reference.folder).get("timed") if reference is not None else None
        if eager is None:
            continue
        kind = _kind(study, trials.workload, eager)
        for key, name in arms.items():
            trial = trials.usable.get((block, key))
            table = _by_run(trial.folder).get("timed") if trial is not None and key != eager_key else None
            if table is None:
                continue
            note = NOT_ALIGNED if study.workload(trials.workload).options.get("dropout", 1) else ""
            blank = Agreement(arm=name, trials="timed", block=block, kind=kind, note=note)
            yield from filter(None, [compare_predictions(blank, table, eager)])


def compare_predictions(blank: Agreement, table: pd.DataFrame, eager: pd.DataFrame) -> Agreement | None:
    """Fill in how far two sets of predictions agree; None when they are about other rows.

    Args:
        blank: Whose predictions, and of which kind.
        table, eager: Columns `row`, `rank`, `value`.
    """
    first, second = (t.sort_values(["row", "rank"], kind="stable") for t in (table, eager))
    if len(first) == 0 or not np.array_equal(first[["row", "rank"]].to_numpy(), second[["row", "rank"]].to_numpy()):
        return None
    num_rows = first["row"].nunique()
    first_Vk, second_Vk = (t["value"].to_numpy(float).reshape(num_rows, -1) for t in (first, second))
    if blank.kind == "rankings":
        shared_V = [len(np.intersect1d(a, b)) for a, b in zip(first_Vk, second_Vk, strict=True)]
        return replace(
            blank,
            num_rows=num_rows,
            num_changed=int(np.sum(np.any(first_Vk != second_Vk, axis=1))),
            overlap=float(np.mean(shared_V)) / first_Vk.shape[1],
        )
    difference_V = np.abs(first_Vk[:, 0] - second_Vk[:, 0])
    changed_V = difference_V > 0
    if blank.kind == "decisions":
        changed_V = (first_Vk[:, 0] > DECISION) != (second_Vk[:, 0] > DECISION)
    return replace(
        blank,
        num_rows=num_rows,
        num_changed=int(np.sum(changed_V | ~np.isfinite(difference_V))),
        largest=finite(np.max(difference_V)),
        mean=finite(np.mean(difference_V)),
    )


def _kind(study: Study, workload: str, eager: pd.DataFrame) -> PredictionKind:
    if eager["rank"].max() > 0:
        return "rankings"
    return "decisions" if study.workload(workload).info.metric in CLASSIFIED_BY else "values"


def _by_run(folder: Path) -> dict[str, pd.DataFrame]:
    table = read_predictions(folder)
    return {str(run): rows for run, rows in table.groupby("run", sort=False)}
