"""`ablate margins`: eager seeds as a study of their own, margins by the rule, and when it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ablate.cli.loading import load_study
from ablate.cli.margins import seeds_of
from ablate.core.record import Environment, Metric
from ablate.records.store import SERIES, read_record, write_record, write_series
from run_parts import make_record, read_log

Ablate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def twenty_seeds(spec: Path) -> list[Path]:
    """Records of twenty completed eager seeds: final losses 0.4 and 0.6 in turns, metrics 0.70 and 0.72."""
    asked = load_study(spec, runs=Path("runs"), reports=Path("reports"))
    seeded = seeds_of(asked, 20, Path("runs"))
    folders = []
    for trial in seeded.trials:
        folder = seeded.paths.records / trial.slug
        sign = 1 if trial.block % 2 else -1
        losses = [9.0] * 38 + [0.5 + 0.1 * sign - 0.05, 0.5 + 0.1 * sign + 0.05]  # the last of 20 bins has two steps
        write_series(folder, {**dict.fromkeys(SERIES.columns, range(40)), "loss": losses})
        record = make_record(trial, study=seeded.study)
        metric = Metric(name="auc", value=0.71 + 0.01 * sign, unit="0 to 1", higher_is_better=True, num_rows=9)
        write_record(folder, replace(record, metric=metric))
        folders.append(folder)
    return folders


def test_the_seeds_are_a_study_of_eager_alone(spec: Path) -> None:
    asked = load_study(spec, runs=Path("runs"), reports=Path("reports"))
    seeded = seeds_of(asked, 20, Path("runs"))
    assert [(t.cell.name, t.block, t.seed) for t in seeded.trials] == [("eager", n, n) for n in range(20)]
    assert (seeded.study.name, seeded.paths.root.name, seeded.parity) == ("small-margins", "small-margins", ())
    assert (seeded.study.training, seeded.study.timing) == (asked.study.training, asked.study.timing)


@pytest.mark.usefixtures("twenty_seeds")
def test_margins_of_twenty_seeds_by_hand(ablate: Ablate, spec: Path, tmp_path: Path) -> None:
    # sd of ten times +-0.1: 0.1 sqrt(20/19) = 0.10260; half of it 0.0513, 0.954 of it 0.0979; metric a tenth
    code, out, err = ablate("margins", spec)
    assert code == 0
    assert "20 eager seeds, 20 trials, 0 missing" in err
    assert "hm/user-churn, final loss (mean over the last of 20 bins): 0.5, sd 0.103 over 20 seeds; " in out
    assert "strict 0.0513 (recommended), ceiling 0.0979" in out
    assert "strict 0.00513 (recommended), ceiling 0.00979" in out
    assert "strict = 0.5 sd, ceiling = 0.954 sd" in out
    assert out.endswith(
        "\n\nequivalence:\n  margin: {hm/user-churn: 0.0513}\n  metric_margin: {hm/user-churn: 0.00513}\n"
    )
    assert read_log(tmp_path, "start") == []


@pytest.mark.usefixtures("twenty_seeds")
def test_the_snippet_is_a_section_that_the_spec_takes(ablate: Ablate, spec: Path) -> None:
    told = json.loads(ablate("margins", spec, "--json")[1])
    assert told["workloads"]["hm/user-churn"]["loss"]["strict"] == pytest.approx(0.05130, abs=1e-5)
    assert (told["study"], told["trials_ended_before"]) == ("small-margins", 0)
    snippet = told["snippet"]
    spec.write_text(spec.read_text().replace("equivalence: off\n", snippet + "\n"))
    read = load_study(spec, runs=Path("runs"), reports=Path("reports")).study.equivalence
    written = YAML(typ="safe").load(snippet)["equivalence"]
    assert (dict(read.margin), dict(read.metric_margin)) == (written["margin"], written["metric_margin"])
    assert read.margin == {"hm/user-churn": 0.0513}


def test_seeds_of_two_environments_are_not_pooled(ablate: Ablate, spec: Path, twenty_seeds: list[Path]) -> None:
    for folder in twenty_seeds[:10]:
        write_record(folder, replace(read_record(folder), environment=Environment(packages={"torch": "2.12.0"})))
    code, out, err = ablate("margins", spec)
    assert (code, out) == (1, "")
    assert "packages.torch: 2.12.0 (10 trials) against not recorded (10 trials); move" in err


def test_a_missing_seed_is_trained_and_a_failed_one_is_not_counted(
    ablate: Ablate, spec: Path, twenty_seeds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (twenty_seeds[7] / "record.json").unlink()
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"eager": "crash"}))
    code, out, err = ablate("margins", spec)
    assert (code, out) == (1, "")
    assert "failed: hm/user-churn/b7/eager[]: the process ended with exit code 7" in err
    assert "margins need 20 eager seeds, there are 19 final losses; train more seeds" in err
    monkeypatch.delenv("FAKE_BEHAVIOR")
    monkeypatch.setenv("FAKE_LOSS", "0.5")
    assert ablate("margins", spec)[0] == 1  # never retried by itself
    assert ablate("margins", spec, "--retry-failed")[0] == 0
    assert read_log(tmp_path, "start") == ["hm/user-churn/b7/eager[]"] * 2


def test_fewer_seeds_only_when_asked_for_and_then_it_says_so(
    ablate: Ablate, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = ablate("margins", spec, "--seeds", 2)
    assert (code, out) == (1, "")
    assert "--seeds 2: margins need 20 seeds, a standard deviation of fewer is too uncertain; add --few" in err
    assert read_log(tmp_path, "start") == []
    monkeypatch.setenv("FAKE_LOSS", "0.5")
    code, out, err = ablate("margins", spec, "--seeds", 2, "--few")
    assert code == 0
    # final losses 0.5 and 0.6: sd 0.0707; metrics 0 and 0.001: sd 0.000707
    assert "0.55, sd 0.0707 over 2 seeds; strict 0.0354 (recommended), ceiling 0.0675" in out
    assert "from 2 seeds only, 20 are needed: take this as a first look" in out
    assert "metric_margin: {hm/user-churn: 0.000354}" in out
    assert read_log(tmp_path, "start") == ["hm/user-churn/b0/eager[]", "hm/user-churn/b1/eager[]"]


@pytest.mark.usefixtures("twenty_seeds", "no_tracking")
def test_trials_that_ended_before_are_pointed_out(ablate: Ablate, spec: Path) -> None:
    assert ablate("run", spec, "--no-report", "--blocks", 1)[0] == 0
    assert "3 trials of small have ended already: a margin written now comes after them" in ablate("margins", spec)[1]
