"""What a run should hold -> that run in MLflow, found again or created, completed, never duplicated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.analysis.analyze import read_results
from ablate.core.serialize import to_dict
from ablate.core.study import Factor, Study
from ablate.core.units import grouped
from ablate.files.paths import StudyPaths
from ablate.track.content import MAX_TEXT, Point, TrialContent, mlflow_key, plain_markdown

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

METRICS_PER_BATCH = 1000
PARAMS_PER_BATCH = 100
MOST_RUNS = 50_000  # in one answer; MLflow gives no more
TRIAL_FILES = ("record.json", "series.parquet", "stderr.txt", "evidence.json", "parity.parquet")
PARENT = "mlflow.parentRunId"
UPLOADED = "ablate.uploaded"
DIGEST = "ablate.record_digest"


def find_runs(client: MlflowClient, experiment_id: str, tags: Mapping[str, str]) -> list[Run]:
    """Return every run of the experiment (the trash excluded) with these tags, oldest first.

    Args:
        tags: Tag -> value; values must not hold quotes (digests and fixed words only).
    """
    condition = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
    order = ["attributes.start_time ASC"]
    return list(client.search_runs([experiment_id], condition, max_results=MOST_RUNS, order_by=order))


def digest_files(files: Iterable[Path]) -> str:
    """Digest (16 hex digits) of names and contents, in the order given; absent files count as absent."""
    total = hashlib.sha256()
    for path in files:
        total.update(f"\n{path.name}\n".encode())
        if path.exists():
            total.update(path.read_bytes())
    return total.hexdigest()[:16]


def upload_trial(
    client: MlflowClient, experiment_id: str, parent_id: str, content: TrialContent, folder: Path, found: Sequence[Run]
) -> bool:
    """Bring one trial to MLflow.

    A run that another record of the same attempt left (its folder was removed and the trial executed anew) goes to
    MLflow's trash; so does a second copy. A half-uploaded run is completed.

    Args:
        found: Runs that carry the trial's id already.

    Returns:
        Whether anything was sent.
    """
    digest = digest_files(folder / name for name in TRIAL_FILES[:2])
    same = [run for run in found if run.data.tags.get(DIGEST) == digest]
    same.sort(key=lambda run: run.data.tags.get(UPLOADED) != "complete")
    for run in found:
        if run not in same[:1]:
            client.delete_run(run.info.run_id)
    if same and same[0].data.tags.get(UPLOADED) == "complete":
        if same[0].data.tags.get(PARENT) != parent_id:
            client.set_tag(same[0].info.run_id, PARENT, parent_id)
        return False
    tags = {**content.tags, PARENT: parent_id, DIGEST: digest}
    run = (
        same[0]
        if same
        else client.create_run(experiment_id, start_time=content.start_ms, tags=tags, run_name=content.run_name)
    )
    run_id = run.info.run_id
    log_params(client, run_id, content.params)
    log_points(client, run_id, content.points)
    for name in TRIAL_FILES:
        if (folder / name).exists():
            client.log_artifact(run_id, str(folder / name))
    client.set_tag(run_id, PARENT, parent_id)
    client.set_terminated(run_id, status=content.status, end_time=content.end_ms)
    client.set_tag(run_id, UPLOADED, "complete")
    return True


def log_params(client: MlflowClient, run_id: str, params: Mapping[str, str]) -> None:
    """Send params in batches that MLflow accepts."""
    from mlflow.entities import Param

    entities = [Param(key, value) for key, value in params.items()]
    for start in range(0, len(entities), PARAMS_PER_BATCH):
        client.log_batch(run_id, params=entities[start : start + PARAMS_PER_BATCH])


def log_points(client: MlflowClient, run_id: str, points: Sequence[Point]) -> None:
    """Send metric points in batches that MLflow accepts."""
    from mlflow.entities import Metric

    entities = [Metric(point.name, point.value, point.timestamp_ms, point.step) for point in points]
    for start in range(0, len(entities), METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=entities[start : start + METRICS_PER_BATCH])


def create_parent(client: MlflowClient, experiment_id: str, study: Study, start_ms: int | None) -> Run:
    """Create the run that stands for the study itself; its params are logged apart."""
    tags = {
        "ablate.kind": "study",
        "ablate.study": study.name,
        "ablate.study_hash": study.hash,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.name": "ablate run",
    }
    return client.create_run(experiment_id, start_time=start_ms, tags=tags, run_name=f"study {study.name}")


def study_params(study: Study) -> dict[str, str]:
    """Params of the parent run: what its hash covers and every workload's options, by the spec's own names."""
    plain = to_dict(study)
    params: dict[str, Any] = {
        name: plain[name]
        for name in (
            "design", "device", "seed", "profile", "compile_step", "compile_backend", "compile_cache", "num_threads",
        )
    }  # fmt: skip
    params["profile"] = study.profile or "none"
    for section in ("timing", "training", "loader"):
        params |= {f"{section}.{key}": value for key, value in plain[section].items()}
    for choice in study.workloads:
        params |= {f"{mlflow_key(choice.name)}.{key}": value for key, value in choice.options.items()}
    for factor in study.factors:
        params[f"optimizations.{mlflow_key(factor.name)}"] = _describe_factor(factor)
    return {key: str(value)[:MAX_TEXT] for key, value in params.items()}


def study_tags(
    study: Study, num_recorded: int, num_planned: int, num_failed: int, parity: tuple[int, int] = (0, 0)
) -> dict[str, str]:
    """Tags of the parent run that may change while the study goes on; `parity`: recorded and planned parity trials."""
    tags = {
        "ablate.question": study.question,
        "ablate.workloads": ", ".join(choice.name for choice in study.workloads),
        "ablate.blocks": str(study.blocks),
        "ablate.trials": f"{num_recorded} of {num_planned}",
        "ablate.trials_not_completed": str(num_failed),
        "mlflow.note.content": plain_markdown(study.question),
    }
    if parity[1]:
        tags["ablate.parity_trials"] = f"{parity[0]} of {parity[1]}"
    if study.claim is not None:
        low, high = study.claim.speedup
        tags["ablate.claim"] = f"speed-up {low} to {high}"
    return {key: value[:MAX_TEXT] for key, value in tags.items()}


def training_tags(paths: StudyPaths) -> dict[str, str]:
    """Tags `ablate.training.<workload>`: `different: naive; equivalent: full`; none before the first analysis.

    Raises:
        StoredDataError: the results cannot be read.
    """
    tags = {}
    for result in read_results(paths).workloads if paths.results_json.exists() else ():
        groups = grouped((row.verdict, row.subject) for row in result.training.verdicts if row.side == "arm")
        if groups:
            words = "; ".join(f"{word}: {', '.join(names)}" for word, names in sorted(groups.items()))
            tags[mlflow_key(f"ablate.training.{result.name}")] = words[:MAX_TEXT]
    return tags


def set_changed_tags(client: MlflowClient, run: Run, tags: Mapping[str, str]) -> None:
    """Set only the tags whose value differs, to keep a repeated sync cheap."""
    for key, value in tags.items():
        if run.data.tags.get(key) != value:
            client.set_tag(run.info.run_id, key, value)


def upload_changed_files(client: MlflowClient, run: Run, tag: str, files: Sequence[tuple[Path, str | None]]) -> bool:
    """Send files as artifacts when any of them changed since the digest kept in `tag`.

    Args:
        files: (file, artifact folder) pairs.

    Returns:
        Whether anything was sent.
    """
    digest = digest_files(path for path, _ in files)
    if not files or run.data.tags.get(tag) == digest:
        return False
    for path, target in files:
        client.log_artifact(run.info.run_id, str(path), target)
    client.set_tag(run.info.run_id, tag, digest)
    return True


def _describe_factor(factor: Factor) -> str:
    if factor.setting != "both":
        return f"{factor.setting} ({factor.on if factor.setting == 'on' else factor.off})"
    label = f", emulation: {factor.emulation}" if factor.emulation else ""
    return f"both (off {factor.off_means}: {factor.off}, on: {factor.on}{label})"
