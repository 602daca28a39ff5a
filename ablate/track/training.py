"""`results.json` of a study -> tags of its MLflow run that say, per workload, which arms trained like eager."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ablate.records.store import read_json
from ablate.track.content import MAX_TEXT, mlflow_key


@dataclass(frozen=True, kw_only=True)
class StoredVerdict:
    """What is needed here of a verdict of the analysis, which tracking does not import."""

    workload: str
    side: str
    subject: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class StoredResults:
    """What is needed here of the results."""

    training: tuple[StoredVerdict, ...] = ()


def training_tags(results_json: Path) -> dict[str, str]:
    """Tags `ablate.training.<workload>`: `different: naive; equivalent: full`; none before the first analysis.

    Raises:
        StoredDataError: the file is damaged.
    """
    if not results_json.exists():
        return {}
    groups: dict[str, dict[str, list[str]]] = {}
    for row in read_json(results_json, StoredResults).training:
        if row.side == "arm":
            groups.setdefault(row.workload, {}).setdefault(row.verdict, []).append(row.subject)
    return {
        mlflow_key(f"ablate.training.{workload}"): _words(verdicts)[:MAX_TEXT] for workload, verdicts in groups.items()
    }


def _words(verdicts: dict[str, list[str]]) -> str:
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in sorted(verdicts.items()))
