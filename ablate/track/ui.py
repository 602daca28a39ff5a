"""A tracking address -> the MLflow pages on this machine's loopback interface."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from ablate.core.errors import UserError
from ablate.track.experiment import is_server, resolve_uri, sqlite_file, visible_uri

LOOPBACK = "127.0.0.1"


def ui_command(uri: str | None, port: int) -> list[str]:
    """Return the command that serves the store behind `uri` on the loopback interface only.

    A database address can hold a password, so it travels in the environment (`ui_environment`), not in the command.

    Raises:
        UserError: the sqlite file does not exist, the address is a server already, or the port is impossible.
    """
    address = resolve_uri(uri)
    if is_server(address) or address.startswith("databricks"):
        raise UserError(f"{visible_uri(address)} is a tracking server already: open it in a browser")
    if not 1 <= port <= 65535:
        raise UserError(f"port {port} is impossible: choose one from 1 to 65535")
    command = [sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port), "--workers", "1"]
    file = sqlite_file(address)
    if file is None:
        return command
    if not file.exists():
        raise UserError(f"no tracking store at {file}: `ablate run SPEC` or `ablate sync SPEC` creates it")
    return [*command, "--backend-store-uri", address, "--artifacts-destination", str(file.parent / "mlartifacts")]


def ui_environment(uri: str | None, base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for `ui_command`: no telemetry, no background jobs, and the address if it is a database."""
    address = resolve_uri(uri)
    environment = {**base, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    if sqlite_file(address) is None:
        environment["MLFLOW_BACKEND_STORE_URI"] = address
    return environment


def serve(uri: str | None, port: int) -> int:
    """Serve the pages until interrupted; returns the server's exit code, 0 after Ctrl-C.

    Raises:
        UserError: as `ui_command`, or the port is taken.
    """
    command = ui_command(uri, port)
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise UserError(f"port {port} cannot be used ({error.strerror}): choose another with --port") from error
    server = subprocess.Popen(command, env=ui_environment(uri, os.environ))
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
        return 0
    finally:
        if server.poll() is None:
            server.kill()
