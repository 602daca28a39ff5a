"""Records of trials -> findings: stages after their training that failed, and what is missing because of it."""

from collections.abc import Mapping

from ablate.analysis.results.quality import Finding
from ablate.analysis.trials.comparable import WorkloadTrials
from ablate.core.evidence import LaterStage
from ablate.core.units import name_some

WOULD_ADD: Mapping[LaterStage, str] = {
    "machine": "what else the machine did",
    "evidence": "what the compiler did",
    "prediction": "metric and predictions",
    "counters": "counters of the optimizations",
    "audit": "syncs",
    "profile": "seconds by stage",
}


def stage_findings(trials: WorkloadTrials) -> list[Finding]:
    """Say for each stage in how many timed trials it failed, why, and what they lack; their times count."""
    found = []
    for stage, lost in WOULD_ADD.items():
        names, reasons = [], []
        for (block, key), trial in sorted(trials.usable.items()):
            for failed in (failed for failed in trial.record.failed_after if failed.stage == stage):
                names.append(f"{trials.name_of(key)} in block {block}")
                reasons.append(failed.reason)
        if names:
            text = (
                f"{stage} failed after the training of {len(names)} of {len(trials.usable)} timed trials "
                f"({name_some(names)}): {name_some(list(dict.fromkeys(reasons)))}; their times and losses count, "
                f"without {lost}"
            )
            found.append(Finding(kind="note", text=text))
    return found
