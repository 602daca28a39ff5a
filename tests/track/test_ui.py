"""The command behind `ablate ui`, and a real server: it shows a synced study and takes one over HTTP, once."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request

import pytest

from ablate.core.errors import UserError
from ablate.track.sync import sync_study
from ablate.track.ui import serve, ui_command, ui_environment


def test_the_server_listens_on_loopback_and_reads_the_right_store(store_uri):
    command = ui_command(store_uri, 5123)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "5123"
    assert command[command.index("--backend-store-uri") + 1] == store_uri


def test_a_missing_store_is_not_created(tmp_path):
    with pytest.raises(UserError, match="no tracking store"):
        ui_command(f"sqlite:///{tmp_path}/none.db", 5123)
    assert not list(tmp_path.iterdir())


def test_a_server_needs_no_second_one():
    with pytest.raises(UserError, match="open it in a browser"):
        ui_command("http://host:5000", 5123)


def test_a_database_password_stays_out_of_the_command():
    uri = "postgresql://ann:secret@host/db"
    assert not any("secret" in word for word in ui_command(uri, 5123))
    assert ui_environment(uri, {"A": "1"})["MLFLOW_BACKEND_STORE_URI"] == uri


@pytest.mark.parametrize("port", [0, 70000])
def test_impossible_ports_are_refused(store_uri, port):
    with pytest.raises(UserError, match=f"port {port}"):
        ui_command(store_uri, port)


def test_a_taken_port_is_named(store_uri):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} cannot be used"):
            serve(store_uri, port)


@pytest.mark.slow
def test_a_real_server_shows_and_takes_a_study_once(on_disk, store_uri, make_study_on_disk):
    on_disk.write_all()
    direct = sync_study(on_disk.paths, store_uri)
    other = make_study_on_disk(name="hm-other")
    other.write_all()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(ui_command(store_uri, port), env=ui_environment(store_uri, os.environ))
    try:
        base = f"http://127.0.0.1:{port}"
        wait_for(f"{base}/health")
        spec = read(f"{base}/get-artifact?path=spec.yaml&run_uuid={direct.parent_run_id}")
        assert spec == b"study: hm-tiny\n"
        first, second = sync_study(other.paths, base), sync_study(other.paths, base)
        assert (first.num_new, second.num_new) == (6, 0)
        assert (first.problem, second.problem) == (None, None)
        assert read(f"{base}/get-artifact?path=spec.yaml&run_uuid={first.parent_run_id}") == b"study: hm-tiny\n"
    finally:
        server.terminate()
        server.wait(20)


def wait_for(url):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            return read(url)
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"{url} does not answer")


def read(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()
