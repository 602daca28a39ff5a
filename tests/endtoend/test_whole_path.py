"""The real command line, from a spec to a real PDF, with real training on a compile backend that is quick."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(900)
SPEC = """
study: whole-path
question: Does an outside file go all the way?
workloads: [hm/user-churn, churn_hinge.py]
data: {dataset: look-alike, scale: tiny}
optimizations: {tensor_lr: both, flush_denormal.py: both}
design: [eager, naive, full]
blocks: 1
compile_backend: eager
equivalence: off
timing: {epochs: 2, steps_per_epoch: 3, horizon_epochs: 10}
training: {channels: 8, num_neighbors: [4, 2], batch_size: 16, encoder_layers: 1, schedule: linear, validation_rows: 50}
device: cpu
trial_timeout: 5m
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("flush_denormal.py", "churn_hinge.py"):
        shutil.copy(HERE / name, tmp_path / name)
    (tmp_path / "study.yaml").write_text(SPEC)
    return tmp_path


def narrow(folder: Path, **values: str) -> None:
    """Replace top-level keys of the spec, to train no more than a test needs."""
    path = folder / "study.yaml"
    lines = [
        f"{key}: {values[key]}" if (key := line.partition(":")[0]) in values else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines) + "\n")


def ablate(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ablate", *arguments],
        cwd=folder,
        text=True,
        capture_output=True,
        env={**os.environ, "COLUMNS": "160"},
        timeout=800,
        check=False,
        **options,
    )


def read_records(folder: Path, purpose: str = "timed") -> list[dict]:
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("runs/whole-path/records/*/record.json"))]
    return [record for record in found if record["identity"]["purpose"] == purpose]


def test_outside_optimization_and_workload_reach_the_pdf(folder: Path):
    narrow(folder, equivalence="{arms: [full]}")
    planned = json.loads(ablate(folder, "plan", "study.yaml", "--json").stdout)
    done = ablate(folder, "run", "study.yaml")
    assert done.returncode == 0, done.stderr
    records = read_records(folder)
    assert len(records) == planned["trials"] == 6
    assert {r["status"] for r in records} == {"completed"}
    assert {r["identity"]["workload"] for r in records} == {"hm/user-churn", "my/churn-hinge"}
    full = [r for r in records if "full" in r["identity"]["arms"]]
    assert all(r["recipe"]["torch_settings"] == {"flush_denormal": True} for r in full)
    assert len({r["data"]["stream_hash"] for r in records}) == 1  # one seed, one task: the same batches everywhere
    parity = {(r["identity"]["workload"], r["identity"]["arms"][0]): r for r in read_records(folder, "parity")}
    assert len(parity) == planned["parity"]["trials"] == 4
    assert {r["status"] for r in parity.values()} == {"completed"}
    assert {arm for _, arm in parity} == {"eager", "full"}
    assert [w["num_steps"] for r in parity.values() for w in r["parity"]["windows"]] == [6] * 4
    assert (folder / "reports" / "whole-path" / "report.pdf").read_bytes().startswith(b"%PDF")
    results = json.loads((folder / "reports" / "whole-path" / "results.json").read_text())
    assert "flush_denormal" in json.dumps(results)

    again = ablate(folder, "run", "study.yaml", "--json")
    assert again.returncode == 0
    outcome = json.loads(again.stdout)["outcome"]
    assert (outcome["trained"], outcome["parity_trained"], outcome["parity_completed"]) == (0, 0, 4)


def test_kill_the_runner_in_the_middle_then_finish(folder: Path):
    narrow(folder, workloads="[hm/user-churn]", design="[eager, full]", blocks="2")
    process = subprocess.Popen(
        [sys.executable, "-m", "ablate", "run", "study.yaml"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not list(folder.glob("runs/whole-path/records/*/record.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)  # into the next trial, whose process now outlives its parent
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = ablate(folder, "run", "study.yaml")
    assert done.returncode == 0, done.stderr
    records = read_records(folder)
    assert len(records) == 4
    assert len({r["identity"]["key"] for r in records}) == 4
    assert {r["status"] for r in records} == {"completed"}
    spans = sorted((r["started_at"], r["ended_at"]) for r in records)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))  # one device, no race


def test_a_broken_training_is_named_and_the_rest_goes_on(folder: Path):
    narrow(folder, design="[eager]")
    text = (folder / "churn_hinge.py").read_text()
    (folder / "churn_hinge.py").write_text(text.replace("softplus(1 -", "softplus(no_such_name -"))
    done = ablate(folder, "run", "study.yaml")
    assert done.returncode == 2, done.stderr
    by_status = {r["identity"]["workload"]: r["status"] for r in read_records(folder)}
    assert by_status == {"hm/user-churn": "completed", "my/churn-hinge": "failed"}
    assert "no_such_name" in done.stdout + done.stderr
    assert (folder / "reports" / "whole-path" / "report.pdf").exists()
