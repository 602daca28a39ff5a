"""A real MLflow server: dead while trials end, started later, killed in the middle, and given 50,000 points."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ablate.records.store import write_series
from ablate.track.sync import sync_study
from ablate.track.ui import ui_command, ui_environment
from fault_parts import call_ablate, write_spec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NUM_POINTS = 50_000
MOST_S = 60.0


class Server:
    """An MLflow server on a port that stays the same when it is started again."""

    def __init__(self, store_uri: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._store_uri = store_uri
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            ui_command(self._store_uri, self.port),
            env=ui_environment(self._store_uri, os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 180
        while True:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=5):
                    return
            except OSError:
                assert time.monotonic() < deadline and self._process.poll() is None
                time.sleep(0.3)

    def cpu_s(self) -> float:
        """CPU time of the server and its workers."""
        assert self._process is not None
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = path.read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15])) if int(fields[3]) == self._process.pid else 0
        return ticks / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """SIGKILL to the server and its workers, all of them in a session of their own."""
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(store_uri: str) -> Iterator[Server]:
    server = Server(store_uri)
    yield server
    server.kill()


def contents(uri: str, experiment: str) -> dict[str, dict[str, list[tuple[int, float, int]]]]:
    """Every point of every trial by run name; two runs of one name would be a duplicate."""
    client = MlflowClient(uri)
    found = client.search_runs(
        [client.get_experiment_by_name(experiment).experiment_id], "tags.`ablate.kind` = 'trial'", max_results=1000
    )
    assert len({run.info.run_name for run in found}) == len(found)
    return {
        run.info.run_name: {
            name: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
        }
        for run in found
    }


def test_dead_while_the_study_runs_then_synced_once(server: Server, tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    dead = call_ablate(tmp_path, "run", spec, "--no-report", "--tracking-uri", "http://127.0.0.1:9", tracking=True)
    assert dead.returncode == 0, dead.stderr
    assert dead.stderr.count("tracking server http://127.0.0.1:9 does not answer; trials are safe in ") == 2
    assert "run `ablate sync" in dead.stderr
    server.start()
    sync = ("sync", spec, "--tracking-uri", server.uri)
    first, second = (call_ablate(tmp_path, *sync, tracking=True) for _ in range(2))
    assert first.stdout == f"3 trials in {server.uri}, 3 of them new\n"
    assert second.stdout == f"3 trials in {server.uri}, 0 of them new\n"
    assert sorted(contents(server.uri, "small")) == ["eager b0", "full b0", "naive b0"]


def test_killed_in_the_middle_then_completed_without_duplicates(server: Server, on_disk) -> None:
    on_disk.write_all()
    server.start()
    sent: list[str] = []

    def kill_after_two(line: str) -> None:
        sent.append(line)
        if len(sent) == 2:
            server.kill()

    broken = sync_study(on_disk.paths, server.uri, report=kill_after_two)
    assert broken.problem is not None and "trials are safe in" in broken.problem and len(sent) == 2
    server.start()
    again = sync_study(on_disk.paths, server.uri)
    assert (again.problem, again.num_trials, again.num_new) == (None, 6, 4)
    found = contents(server.uri, "hm-tiny")
    assert len(found) == 6
    assert all(len(run["loss"]) == len(set(run["loss"])) == 6 for run in found.values())


def test_fifty_thousand_points_in_a_minute(server: Server, make_study_on_disk, capsys) -> None:
    """Steps of 1,000 per trial, four series each, as many blocks as it takes."""
    on_disk = make_study_on_disk(blocks=5)
    for folder in on_disk.write_all():
        steps = list(range(1000))
        write_series(folder, {"step": steps, "epoch": [step // 500 for step in steps],
                              "loss": [1 / (step + 1) for step in steps], "lr": [0.01] * 1000,
                              "step_s": [0.5] * 1000, "loader_wait_s": [0.125] * 1000})  # fmt: skip
    server.start()
    started, used_s = time.monotonic(), time.process_time() + server.cpu_s()
    outcome = sync_study(on_disk.paths, server.uri)
    seconds, used_s = time.monotonic() - started, time.process_time() + server.cpu_s() - used_s
    assert (outcome.problem, outcome.num_new) == (None, 15)
    num_points = sum(len(points) for run in contents(server.uri, "hm-tiny").values() for points in run.values())
    with capsys.disabled():
        print(f"\n{num_points:,} points in {seconds:.1f} s, {used_s:.1f} s of CPU time of client and server together")
    assert num_points >= NUM_POINTS
    assert seconds * NUM_POINTS / num_points <= MOST_S
    assert re.match(r"http://127\.0\.0\.1:\d+$", outcome.uri)
