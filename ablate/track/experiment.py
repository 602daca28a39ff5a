"""A tracking address as written in a spec -> its absolute and printable form, and an open MLflow client."""

from __future__ import annotations

import http.client
import logging
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from ablate.core.errors import UserError
from ablate.files.locks import folder_lock
from ablate.track.content import mlflow_key

if TYPE_CHECKING:
    from mlflow import MlflowClient


PROBE_TIMEOUT_S = 4.0
_SERVERS = ("http", "https")
_DATABASES = ("postgresql", "mysql", "mssql")
_GATEWAY_FAILURES = (502, 503, 504)


def resolve_uri(text: str | None) -> str:
    """Turn the tracking address of a spec into one that does not depend on the current folder.

    Args:
        text: Address as written; None means `mlflow.db` in the current folder.

    Returns:
        `sqlite:///<absolute path>`, or the address itself when it names a server or another database.

    Raises:
        UserError: a plain folder, an in-memory database, or a scheme that MLflow does not know.
    """
    written = text or "sqlite:///mlflow.db"
    scheme = written.split(":", 1)[0].split("+", 1)[0] if ":" in written else ""
    if scheme == "sqlite":
        return _absolute_sqlite(written)
    if scheme in (*_SERVERS, *_DATABASES) or written.startswith("databricks"):
        return written
    raise UserError(
        f"tracking uri {visible_uri(written)!r} is not one that MLflow can store to: write sqlite:///mlflow.db "
        "(a file), http://HOST:PORT (a server) or postgresql://..."
    )


def _absolute_sqlite(uri: str) -> str:
    head, _, path = uri.partition(":///")
    path, mark, query = path.partition("?")
    if not path or path == ":memory:":
        raise UserError(f"tracking uri {uri!r} names no file: write sqlite:///mlflow.db")
    return f"{head}:///{Path(path).expanduser().absolute()}{mark}{query}"


def sqlite_file(uri: str) -> Path | None:
    """File behind a resolved sqlite address, None for every other address."""
    if not uri.startswith("sqlite"):
        return None
    return Path(uri.partition(":///")[2].partition("?")[0])


def is_server(uri: str) -> bool:
    """Tell whether the address is a tracking server rather than a database that ablate opens itself."""
    return urlsplit(uri).scheme in _SERVERS


def visible_uri(uri: str) -> str:
    """Return the address as it may be printed: a password in it becomes `***`."""
    parts = urlsplit(uri)
    if not parts.password:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")))


def server_answers(uri: str) -> bool:
    """Ask a tracking server for its health, waiting at most `PROBE_TIMEOUT_S`.

    Any answer counts, a refused login included, because only silence would make MLflow's own calls wait; a failing
    gateway in front of the server is silence. Certificates are left to MLflow, which may know more of them.
    """
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    health = urlunsplit(parts._replace(netloc=host, path=parts.path.rstrip("/") + "/health", query="", fragment=""))
    try:
        with urllib.request.urlopen(health, timeout=PROBE_TIMEOUT_S):
            return True
    except urllib.error.HTTPError as error:
        return error.code not in _GATEWAY_FAILURES
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)
    except (OSError, http.client.HTTPException, ValueError):
        return False


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
