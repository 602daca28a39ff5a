"""`ablate plan`, `run`, `status`, `show` with parity trials, trainer faked: counted and told apart from timed ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from run_parts import read_log

Ablate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def spec(spec: Path) -> Path:
    """Three timed trials, and five parity trials: eager, naive, full, and full without each of the two."""
    spec.write_text(
        spec.read_text().replace("equivalence: off", "equivalence: default").replace("blocks: 2", "blocks: 1")
    )
    return spec


def test_plan_prints_parity_trials_and_their_time_apart(ablate: Ablate, spec: Path) -> None:
    code, out, _ = ablate("plan", spec)
    assert code == 0
    assert "trials: 3 cells x 1 workload x 1 block = 3; 0 have ended, 0 failed" in out
    assert (
        "parity trials (equivalence: default): 5 beside the timed ones, 0 have ended, 0 failed; eager, naive, full, "
        "with-tensor_lr, with-dynamic_shapes; windows from step 0\n"
    ) in out
    assert "missing of parity: about " in out
    planned = json.loads(ablate("plan", spec, "--json")[1])
    assert (planned["trials"], planned["parity"]["trials"], planned["parity"]["windows"]) == (3, 5, [0])
    assert planned["parity"]["estimated_s"] > 0.0
    spec.write_text(spec.read_text().replace("equivalence: default", "equivalence: off"))
    assert "parity trials: none (equivalence: off)" in ablate("plan", spec)[1]


@pytest.mark.usefixtures("no_tracking")
def test_run_status_and_show(ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"parity-naive": "unaligned", "parity-full": "non-finite"}))
    code, out, err = ablate("run", spec, "--no-report")
    assert code == 2
    assert "study small on cpu: 3 trials, 3 missing, about" in err
    assert "then 5 parity trials, 5 missing, about" in err
    assert "[2/5] parity of hm/user-churn naive block 0 (cold cache) ... " in err
    assert "non-finite: hm/user-churn/b0/parity(0|60)/compiled[dynamic_shapes=dynamic,tensor_lr=tensor]: loss" in out
    assert "1 of 5 parity trials did not complete" in out
    assert "of 3 trials" not in out
    told = json.loads(ablate("run", spec, "--no-report", "--json")[1])["outcome"]
    assert (told["planned"], told["completed"], told["trained"]) == (3, 3, 0)
    assert (told["parity_planned"], told["parity_completed"], told["parity_trained"]) == (5, 4, 0)

    code, out, _ = ablate("status", spec)
    assert "study small: 3 trials: 3 completed\n" in out
    assert "beside them 5 parity trials: 4 completed, 1 non-finite\n" in out
    told = json.loads(ablate("status", spec, "--json")[1])
    assert (told["counts"], len(told["trials"])) == ({"completed": 3}, 3)
    assert (told["parity_counts"], len(told["parity"])) == ({"completed": 4, "non-finite": 1}, 5)

    naive = next(Path("runs/small/records").glob("*parity-naive*"))
    code, out, _ = ablate("show", naive)
    assert code == 0
    assert "  window from step 0       12 steps, masks not aligned\n" in out
    code, _, err = ablate("show", naive, "--rerun", "again")
    assert (code, "[1/1] parity of hm/user-churn naive block 0" in err) == (0, True)
    assert json.loads(Path("again/record.json").read_text())["identity"]["purpose"] == "parity"


@pytest.mark.usefixtures("no_tracking")
def test_both_kinds_of_failures_are_counted_apart(ablate: Ablate, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"naive": "crash", "parity-eager": "crash"}))
    code, out, _ = ablate("run", spec, "--no-report")
    assert code == 2
    assert "1 of 3 trials and 5 of 5 parity trials did not complete" in out
    assert out.count("not trained: its eager reference did not complete") == 4


@pytest.mark.usefixtures("no_tracking")
def test_a_margin_stated_after_trials_is_called_that(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    stated = "equivalence: {parity: off, margin: {hm/user-churn: 0.1}}"
    spec.write_text(spec.read_text().replace("equivalence: default", stated))
    assert ablate("run", spec, "--no-report")[0] == 0
    sentence = "margins: 3 trials ended before the spec stated these margins; what they decide is called post hoc"
    assert sentence not in ablate("plan", spec)[1]
    spec.write_text(spec.read_text().replace("0.1}", "0.2}"))
    assert sentence in ablate("plan", spec)[1]
    code, _, err = ablate("run", spec, "--no-report")
    assert (code, sentence in err) == (0, True)
    assert len(read_log(tmp_path, "start")) == 3
    assert json.loads(Path("runs/small/study.json").read_text())["equivalence"]["margin"] == {"hm/user-churn": 0.2}
