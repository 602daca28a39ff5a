"""Tracking servers that are down, slow, refusing or killed, over real sockets: the records are safe, then sent once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ablate.track.sync import SyncOutcome, sync_study

SAFE = "; trials are safe in "


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """An HTTP server on a free port that treats every request alike."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            answer(self)

        do_GET = do_POST = do_PUT = do_PATCH = handle_any

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def synced(on_disk, uri: str, within_s: float) -> SyncOutcome:
    """Sync, and check that it took no longer than a study can wait and left the records as they are."""
    before = {path: path.read_bytes() for path in on_disk.paths.records.rglob("*") if path.is_file()}
    started = time.monotonic()
    outcome = sync_study(on_disk.paths, uri)
    assert time.monotonic() - started < within_s
    assert {path: path.read_bytes() for path in on_disk.paths.records.rglob("*") if path.is_file()} == before
    return outcome


def assert_explained(outcome: SyncOutcome, what: str) -> None:
    assert outcome.problem is not None and outcome.num_new == 0
    assert what in outcome.problem and SAFE in outcome.problem
    assert outcome.problem.endswith("run `ablate sync studies/hm-tiny.yaml` later")
    assert "\n" not in outcome.problem


def test_nobody_listens(on_disk):
    on_disk.write_all()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert_explained(synced(on_disk, f"http://127.0.0.1:{port}", 20), "does not answer")


def test_a_server_that_takes_the_call_and_says_nothing(on_disk):
    on_disk.write_all()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert_explained(synced(on_disk, f"http://127.0.0.1:{silent.getsockname()[1]}", 30), "does not answer")


@pytest.mark.parametrize("status", [404, *(pytest.param(s, marks=pytest.mark.slow) for s in (403, 500))])
def test_a_server_that_refuses(on_disk, status):
    on_disk.write_all()
    with answering(lambda handler: reply(handler, status, b"no")) as uri:
        assert_explained(synced(on_disk, uri, 60), f"MLflow at {uri} refused (")


def test_a_gateway_without_its_server(on_disk):
    on_disk.write_all()
    with answering(lambda handler: reply(handler, 503)) as uri:
        assert_explained(synced(on_disk, uri, 20), "does not answer")


def test_a_page_that_is_no_tracking_server(on_disk):
    on_disk.write_all()
    with answering(lambda handler: reply(handler, 200, b"<html>log in first</html>", "text/html")) as uri:
        assert_explained(synced(on_disk, uri, 60), f"MLflow at {uri} refused (")


@pytest.mark.slow
def test_a_server_that_hangs_after_its_health_check(on_disk, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    on_disk.write_all()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/health":
            reply(handler, 200, b"OK")
        else:
            time.sleep(3)

    with answering(hang) as uri:
        assert_explained(synced(on_disk, uri, 60), f"MLflow at {uri} refused (")
