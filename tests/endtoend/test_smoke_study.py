"""The smoke study as it is: real code generation, cold and warm caches, six trials, parity, MLflow and the PDF."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_smoke_study_compiles_for_real(tmp_path: Path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ablate",
            "run",
            str(ROOT / "studies" / "smoke.yaml"),
            "--tracking-uri",
            uri,
            "--runs",
            str(tmp_path / "runs"),
            "--reports",
            str(tmp_path / "reports"),
        ],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in tmp_path.glob("runs/hm-smoke/records/*/record.json")]
    assert len(records) == 8 and {record["status"] for record in records} == {"completed"}
    timed = [record for record in records if record["identity"]["purpose"] == "timed"]
    by_arm = {(record["identity"]["arms"][0], record["identity"]["block"]): record for record in timed}
    assert len(by_arm) == 6
    parity = {record["identity"]["arms"][0]: record for record in records if record not in timed}
    assert set(parity) == {"eager", "full"} and parity["eager"]["parity"]["deterministic"]
    assert parity["full"]["parity"]["windows"][0]["masks"] == "aligned"
    assert parity["full"]["recipe"]["inductor_config"] == {"fallback_random": True}
    for arm in ("naive", "full"):
        cold, warm = by_arm[arm, 0], by_arm[arm, 1]
        assert (cold["cache_state"], warm["cache_state"]) == ("cold", "warm")
        assert warm["times"]["compile_s"] < 0.7 * cold["times"]["compile_s"]
    for block in (0, 1):
        naive, full = (by_arm[arm, block]["evidence"]["counters"] for arm in ("naive", "full"))
        assert (naive["compiles.optimizer_step"], full["compiles.optimizer_step"]) == (2, 1)
        assert (naive["recompiles.forward"], full["recompiles.forward"]) == (1, 0)
        assert len({by_arm[arm, block]["data"]["stream_hash"] for arm in ("eager", "naive", "full")}) == 1
    assert by_arm["eager", 0]["data"]["stream_hash"] != by_arm["eager", 1]["data"]["stream_hash"]
    assert (tmp_path / "reports" / "hm-smoke" / "report.pdf").read_bytes().startswith(b"%PDF")

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("hm-smoke")
    tracked = client.search_runs([experiment.experiment_id])
    assert sorted("mlflow.parentRunId" in run.data.tags for run in tracked) == [False] + [True] * 8
