"""No trial can see another's compile cache, decisions, learning rate, random numbers or environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ablate.core.recipe import Recipe
from ablate.core.request import TrialRequest
from ablate.core.study import Training
from ablate.design.cells import make_design
from ablate.records.store import write_json
from ablate.run.process.launch import child_environment
from ablate.train.session import open_session
from real_parts import stepper_of, tiny_graph, tiny_study

CHURN = "hm/user-churn"
COMPILED = Recipe(execution="compiled", backend="aot_eager", lr_kind="tensor", metric_policy="on-device")
PLANTED = {
    "TORCHINDUCTOR_CUDAGRAPHS": "1",
    "TORCH_COMPILE_JOB_ID": "another-arm",
    "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "TORCHINDUCTOR_CACHE_DIR": "/nonexistent/cache",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_LOGS": "recompiles",
}
TIMED = {"started_at", "ended_at", "times", "peak_memory_gib", "files", "digest"}


def environment(caller: dict[str, str], cache: Path) -> dict[str, str]:
    return child_environment(caller, compile_cache=cache, recipe_environment={}, num_threads=1, visible_gpu="")


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_variable_does_not_reach_a_trial(name, tmp_path):
    clean = {key: value for key, value in os.environ.items() if key not in PLANTED}
    assert environment({**clean, name: PLANTED[name]}, tmp_path) == environment(clean, tmp_path)


def train(folder: Path, planted: dict[str, str]) -> dict:
    """Train one compiled trial in a process of its own; its record without times."""
    tiny_graph()
    study = tiny_study(CHURN)
    write_json(folder / "study.json", study)
    trial = next(t for t in make_design(study).trials if t.cell.cell.execution == "compiled")
    request = TrialRequest(
        study_json=str(folder / "study.json"),
        trial=trial,
        recipe=COMPILED,
        attempt=1,
        record_folder=str(folder),
        cache_state="cold",
    )
    write_json(folder / "request.json", request)
    caller = {key: value for key, value in os.environ.items() if key not in PLANTED} | planted
    subprocess.run(
        [sys.executable, "-m", "ablate.train", "trial", str(folder / "request.json")],
        check=True,
        env=environment(caller, folder / "cache"),
        capture_output=True,
        cwd=folder,
    )
    record = {k: v for k, v in json.loads((folder / "record.json").read_text()).items() if k not in TIMED}
    record["environment"]["variables"] = {
        name: value.replace(str(folder), "FOLDER") for name, value in record["environment"]["variables"].items()
    }
    del record["environment"]["machine"]  # its load
    evidence = record["evidence"]
    del evidence["stages"], evidence["counters"]["compile_s"]
    for event in evidence["events"]:
        del event["seconds"]
    return record


@pytest.mark.slow
def test_planted_variables_change_no_record(tmp_path):
    clean, planted = (train(tmp_path / name, variables) for name, variables in (("a", {}), ("b", PLANTED)))
    assert clean["status"] == "completed" and clean["evidence"]["counters"]["compiles.forward"] == 2
    assert planted == clean
    assert not set(PLANTED) - {"TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO", "TORCHINDUCTOR_CACHE_DIR"} & set(
        planted["environment"]["variables"]
    )
    assert planted["environment"]["variables"]["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] == "0"


def test_a_recorded_decision_about_sizes_is_neither_written_nor_read(tmp_path, monkeypatch):
    from torch._dynamo import pgo

    for name, value in environment({"TORCH_COMPILE_JOB_ID": "another-arm"}, tmp_path).items():
        if name.startswith("TORCH"):
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCH_COMPILE_JOB_ID", raising=False)
    monkeypatch.setattr(
        torch._dynamo.config,
        "automatic_dynamic_local_pgo",
        os.environ["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] == "1",
    )
    assert pgo.get_cache_key() is None


def test_every_trial_builds_its_own_learning_rate_and_draws_its_own_random_numbers():
    first, second = (
        stepper_of(torch.nn.Parameter(torch.ones(1)), COMPILED, Training(schedule="linear"), 0.1, 2) for _ in range(2)
    )
    rates = [stepper.optimizer.param_groups[0]["lr"] for stepper in (first, second)]
    assert rates[0] is not rates[1]
    first.advance_schedule()
    assert float(rates[1]) == pytest.approx(0.1)
    draws = []
    for consumed in (0, 7):
        torch.manual_seed(99)
        torch.rand(consumed)  # whatever ran before
        session = open_session(tiny_study(CHURN), CHURN, Recipe(), seed=3, device=torch.device("cpu"))
        weights = next(iter(session.workload.model.parameters())).detach().clone()
        draws.append((weights, torch.rand(4), session.workload.checksum(session.dataset[0])))
    assert torch.equal(draws[0][0], draws[1][0]) and torch.equal(draws[0][1], draws[1][1])
    assert draws[0][2] == draws[1][2]
