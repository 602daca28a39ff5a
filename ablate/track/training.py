"""Results of a study -> tags of its MLflow run that say, per workload, which arms trained like eager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.analysis.analyze import read_results
from ablate.files.paths import StudyPaths
from ablate.track.content import MAX_TEXT, mlflow_key


def training_tags(paths: StudyPaths) -> dict[str, str]:
    """Tags `ablate.training.<workload>`: `different: naive; equivalent: full`; none before the first analysis.

    Raises:
        StoredDataError: the results cannot be read.
    """
    tags = {}
    for result in read_results(paths).workloads if paths.results_json.exists() else ():
        groups: dict[str, list[str]] = {}
        for row in result.training.verdicts:
            if row.side == "arm":
                groups.setdefault(row.verdict, []).append(row.subject)
        if groups:
            tags[mlflow_key(f"ablate.training.{result.name}")] = _words(groups)[:MAX_TEXT]
    return tags


def _words(verdicts: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in sorted(verdicts.items()))
