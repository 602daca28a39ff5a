"""Tracking addresses: resolved, printed without passwords, probed."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.track.experiment import resolve_uri, server_answers, sqlite_file, visible_uri


def test_relative_files_are_resolved_against_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve_uri(None) == f"sqlite:///{tmp_path}/mlflow.db"
    assert resolve_uri("sqlite:///store/a.db") == f"sqlite:///{tmp_path}/store/a.db"
    assert resolve_uri("sqlite:////data/a.db") == "sqlite:////data/a.db"
    assert sqlite_file("sqlite:////data/a.db") == Path("/data/a.db")


@pytest.mark.parametrize("uri", ["http://host:5000", "postgresql+psycopg2://u@h/db", "databricks"])
def test_other_stores_stay_as_written(uri):
    assert resolve_uri(uri) == uri
    assert sqlite_file(uri) is None


@pytest.mark.parametrize("uri", ["mlruns", "file:///data/mlruns", "sqlite://", "sqlite:///:memory:", "ftp://h"])
def test_impossible_stores_are_refused(uri):
    with pytest.raises(UserError, match="write sqlite:///mlflow"):
        resolve_uri(uri)


def test_passwords_are_not_printed():
    assert visible_uri("postgresql://ann:secret@host/db") == "postgresql://ann:***@host/db"
    assert visible_uri("http://host:5000") == "http://host:5000"


def test_a_refusing_and_a_mute_server_do_not_answer(monkeypatch):
    monkeypatch.setattr("ablate.track.experiment.PROBE_TIMEOUT_S", 0.3)
    assert not server_answers("http://127.0.0.1:9")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        assert not server_answers(f"http://127.0.0.1:{mute.getsockname()[1]}")
        assert time.monotonic() - began < 5


@pytest.mark.parametrize(("status", "alive"), [("200 OK", True), ("401 Unauthorized", True), ("502 Bad", False)])
def test_any_answer_but_a_failing_gateway_counts(status, alive):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

        thread = threading.Thread(target=answer)
        thread.start()
        assert server_answers(f"http://user:pass@127.0.0.1:{server.getsockname()[1]}") is alive
        thread.join()
