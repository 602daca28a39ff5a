"""A tracking address and a study's name -> an open MLflow client and the study's experiment, created if absent."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ablate.files.locks import folder_lock
from ablate.track.address import sqlite_file
from ablate.track.content import mlflow_key

if TYPE_CHECKING:
    from mlflow import MlflowClient

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def prepare_mlflow() -> None:
    """Set what MLflow reads at import, unless the user has, and quiet its notices about creating tables."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import mlflow  # noqa: F401  (its import sets up its loggers)

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def open_experiment(uri: str, name: str) -> tuple[MlflowClient, str]:
    """Open the store and find the experiment `name`.

    Two processes that create one sqlite store at once destroy it, so it is locked meanwhile. Artifacts of a
    sqlite store lie in `mlartifacts/` beside it; a server keeps them where it wants.

    Returns:
        The client, and the id of the experiment.

    Raises:
        MlflowException: the store refuses, or the experiment is in its trash.
    """
    from mlflow import MlflowClient

    file = sqlite_file(uri)
    if file is None:
        client = MlflowClient(uri)
        return client, _find_or_create(client, name, None)
    file.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(file):
        client = MlflowClient(uri)
        artifacts = file.parent / "mlartifacts" / mlflow_key(name).replace("/", "_")
        return client, _find_or_create(client, name, artifacts.as_uri())


def _find_or_create(client: MlflowClient, name: str, artifacts: str | None) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        tags = {"ablate.study": name, "mlflow.experimentKind": "custom_model_development"}
        try:
            return str(client.create_experiment(name, artifact_location=artifacts, tags=tags))
        except MlflowException as error:
            experiment = client.get_experiment_by_name(name)
            if error.error_code != "RESOURCE_ALREADY_EXISTS" or experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        command = f"mlflow experiments restore -x {experiment.experiment_id}"
        raise MlflowException(f"experiment {name} is in MLflow's trash: `{command}` brings it back")
    return str(experiment.experiment_id)
