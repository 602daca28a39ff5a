"""`ablate diagnose` names breaks, recompilations and syncs of a workload, built in or in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ablate.cli import main
from ablate.cli.diagnose import make_study, print_diagnosis
from ablate.core.evidence import Evidence
from ablate.core.request import Diagnosis, Probe, ProbeResult

WORKLOADS = Path(__file__).parents[1] / "endtoend"


def test_a_wrong_name_is_one_sentence(capsys):
    assert main(["diagnose", "hm/user-chrn"]) == 1
    assert "did you mean 'hm/user-churn'" in capsys.readouterr().err
    assert main(["diagnose", "hm/user-churn", "--try", "sync_fre"]) == 1
    assert "sync_free" in capsys.readouterr().err


def test_what_is_inert_starts_no_process(capsys, monkeypatch):
    from ablate.run.process import diagnosis

    started = []

    def run(self, levels, *, hazards=False):
        started.append(dict(levels))
        compiles = 1.0 if levels["tensor_lr"] == "tensor" else 2.0
        counters = {
            "compiles.forward": 1.0,
            "compiles.optimizer_step": compiles,
            "graph_breaks": 0.0,
            "syncs_per_step": 4.0,
            "compile_s": 1.0,
        }
        return ProbeResult(evidence=Evidence(counters=counters), first_loss=0.7)

    monkeypatch.setattr(diagnosis._Prober, "run", run)
    arguments = [
        "diagnose",
        "hm/user-churn",
        "--try",
        "tensor_lr",
        "--try",
        "no_cuda_graphs",
        "--try",
        "sync_free",
        "--on",
        "sync_free",
        "--json",
    ]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["levels"] == {"tensor_lr": "float", "no_cuda_graphs": "cuda-graphs", "sync_free": "sync-free"}
    assert [p["verdict"] for p in found["probes"]] == ["bites", "inert", "vacuous"]
    assert found["probes"][0]["changes"] == {"compiles.optimizer_step": [2.0, 1.0]}
    assert len(started) == 3 and started[2]["sync_free"] == "syncing"
    assert main(arguments[:-1]) == 0
    screen = capsys.readouterr().out
    assert "float -> tensor" in screen and "2 -> 1" in screen and "inert: no CUDA device" in screen


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_the_device_that_is_there_is_diagnosed(monkeypatch, kind):
    from ablate.run import devices

    device = devices.Device(kind=kind, name="card", lock_name="card")
    monkeypatch.setattr(devices, "detect_device", lambda: device)
    study, _ = make_study("hm/user-churn", [], ["no_cuda_graphs"], "today", 3, "eager", "look-alike")
    assert study.device == kind
    inert = study.inert_reason(study.factors[0], "compiled")
    assert (inert is None) == (kind == "cuda")


@pytest.mark.parametrize(
    ("device", "counters", "lines"),
    [
        ("cpu", {"syncs_per_step": 4.0}, ["would-be syncs: 4 a step"]),
        (
            "cuda",
            {"syncs_per_step": 41.0, "eager_syncs_per_step": 44.0},
            ["waits for the GPU: 41 a step", "  (the same step with nothing compiled: 44)"],
        ),
        ("cuda", {}, ["syncs: not measured, each batch compiles anew"]),
    ],
)
def test_syncs_are_told_as_what_they_are_on_a_device(capsys, device, counters, lines):
    compiled = {"compiles.forward": 1.0, "compiles.optimizer_step": 1.0, "graph_breaks": 0.0, "compile_s": 1.0}
    result = ProbeResult(evidence=Evidence(counters={**compiled, **counters}))
    probe = Probe(optimization="copies", before="blocking", after="non-blocking", verdict="vacuous", result=result)
    print_diagnosis(
        Diagnosis(
            workload="my/line", execution="compiled", backend="eager", num_batches=3, off_means="today", levels={},
            result=result, probes=(probe,), device=device,
        )
    )  # fmt: skip
    screen = capsys.readouterr().out.splitlines()
    assert set(lines) <= set(screen)
    assert not any("vanish" in line for line in screen)


@pytest.mark.slow
def test_a_workload_file_is_diagnosed_for_real(capsys, monkeypatch):
    monkeypatch.chdir(WORKLOADS)
    assert (
        main(["diagnose", "churn_hinge.py", "--backend", "eager", "--batches", "3", "--try", "tensor_lr", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["workload"], found["num_batches"]) == ("my/churn-hinge", 3)
    assert found["result"]["evidence"]["counters"]["compiles.optimizer_step"] == 2
    assert found["result"]["evidence"]["sync_sources"]
    (probe,) = found["probes"]
    assert (probe["before"], probe["after"], probe["verdict"]) == ("float", "tensor", "bites")
