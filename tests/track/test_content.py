"""What the MLflow run of a trial shows: names, params, summary metrics, series, remarks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ablate.core.cell import Design
from ablate.core.evidence import Evidence, FailedStage
from ablate.core.record import Metric
from ablate.records.store import read_record, read_series
from ablate.track.content import arm_name, describe_trial, epoch_ms, kept_steps, mlflow_key, plain_markdown, trial_id

START_MS = 1767225600000  # 2026-01-01T00:00:00Z


def describe(on_disk, trial, **changes):
    folder = on_disk.write_trial(trial, **changes)
    return describe_trial(read_record(folder), read_series(folder), on_disk.study, on_disk.design)


def planned(on_disk, arm, block=0):
    return next(t for t in on_disk.design.trials if arm in t.cell.arms and t.block == block)


def test_params_name_the_cell_and_every_optimization(on_disk):
    trial = planned(on_disk, "naive", block=1)
    content = describe(on_disk, trial)
    assert content.params == {
        "arm": "naive",
        "workload": "hm/user-churn",
        "execution": "compiled",
        "block": "1",
        "seed": "1",
        "order": str(trial.order),
        "attempt": "1",
        "cache_state": "cold",
        "off_means": "alpha=today, beta=guide",
        "emulation": "beta: emulates 2023",
        "alpha": "no",
        "beta": "old",
    }
    assert content.run_name == "naive b1"
    assert describe(on_disk, planned(on_disk, "full")).params["emulation"] == "none"


def test_a_stage_that_failed_after_the_training_is_a_tag(on_disk):
    failed = (FailedStage(stage="prediction", reason="RuntimeError: planted"),)
    content = describe(on_disk, planned(on_disk, "full"), failed_after=failed)
    assert content.status == "FINISHED" and "ablate.reason" not in content.tags
    assert content.tags["ablate.failed_after"] == "prediction failed after the training: RuntimeError: planted"


def test_reserved_memory_is_a_metric_beside_what_tensors_took(on_disk):
    content = describe(on_disk, planned(on_disk, "full"), peak_device_memory_gib=0.5, peak_reserved_memory_gib=2.0)
    found = {p.name: p.value for p in content.points}
    assert (found["peak_device_memory_gib"], found["peak_reserved_memory_gib"]) == (0.5, 2.0)


def test_summary_metrics_carry_the_end_time(on_disk):
    content = describe(on_disk, planned(on_disk, "full"))
    summary = {p.name: p.value for p in content.points if p.timestamp_ms == START_MS + 10_000}
    assert summary == {
        "steady_s": 1.5,
        "horizon_s": 17.0,
        "startup_s": 2.0,
        "compile_s": 1.75,
        "first_step_s": 2.25,
        "peak_memory_gib": 0.75,
        "final_loss": pytest.approx(1 / 6),
        "roc_auc": 0.625,
        "evidence/compiles.forward": 2.0,
        "evidence/graph_breaks": 0.0,
    }
    assert (content.start_ms, content.end_ms) == (START_MS, START_MS + 10_000)


def test_series_times_add_up_the_recorded_steps(on_disk):
    content = describe(on_disk, planned(on_disk, "full"))
    loss = [(p.step, p.value, p.timestamp_ms - START_MS) for p in content.points if p.name == "loss"]
    assert loss == [(i, pytest.approx(1 / (i + 1)), 500 * (i + 1)) for i in range(6)]
    epochs = [(p.step, p.value) for p in content.points if p.name == "epoch_s"]
    assert epochs == [(2, 3.5), (5, 1.5)]


def test_non_finite_values_are_omitted_and_named(on_disk):
    trial = planned(on_disk, "full")
    folder = on_disk.write_trial(trial, status="non-finite", final_loss=float("nan"))
    series = read_series(folder)
    series.loc[3:, "loss"] = [np.inf, np.nan, np.nan]
    content = describe_trial(read_record(folder), series, on_disk.study, on_disk.design)
    assert content.status == "FAILED"
    assert content.tags["ablate.non_finite"] == "final_loss; loss at 3 of 6 steps, first at step 3"
    assert [p.step for p in content.points if p.name == "loss"] == [0, 1, 2]
    assert all(np.isfinite(p.value) for p in content.points)


def test_long_series_are_thinned_and_say_so(on_disk):
    trial = planned(on_disk, "full")
    steps = np.arange(2500)
    series = pd.DataFrame({"step": steps, "epoch": 0, "loss": 1.0, "lr": 0.1, "step_s": 0.001, "loader_wait_s": 0.0})
    content = describe_trial(read_record(on_disk.write_trial(trial)), series, on_disk.study, on_disk.design)
    kept = [p.step for p in content.points if p.name == "loss"]
    assert (len(kept), kept[0], kept[-1]) == (1000, 0, 2499)
    assert content.tags["ablate.series_thinned"] == "1000 of 2500 steps; series.parquet has all"
    assert list(kept_steps(1000)) == list(range(1000))


def test_a_metric_may_not_shadow_a_time(on_disk):
    metric = Metric(name="loss", value=2.0, unit="nats", higher_is_better=False, num_rows=1)
    content = describe(on_disk, planned(on_disk, "full"), metric=metric)
    assert [p.value for p in content.points if p.name == "validation/loss"] == [2.0]


def test_a_second_attempt_is_another_trial(on_disk):
    record = read_record(on_disk.write_trial(planned(on_disk, "eager")))
    assert trial_id("h", record.identity.key, 1) != trial_id("h", record.identity.key, 2)


def test_a_cell_without_arm_is_named_by_what_is_on(on_disk):
    from dataclasses import replace

    identity = read_record(on_disk.write_trial(planned(on_disk, "naive"))).identity
    bare = replace(identity, arms=(), levels={"alpha": "yes", "beta": "old"}, effective_key="unknown")
    empty = Design(kind="cells", cells=(), trials=())
    assert arm_name(bare, empty, on_disk.study.factors) == "compiled +alpha"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("evidence/compiles.forward", "evidence/compiles.forward"),
        ("MAP@12", "MAP_12"),
        ("../up", "_/up"),
        ("naïve", "na_ve"),
    ],
)
def test_keys_hold_only_what_mlflow_allows(text, key):
    assert mlflow_key(text) == key


def test_dates_without_a_zone_are_utc():
    assert epoch_ms("2026-01-01T00:00:00") == epoch_ms("2026-01-01T00:00:00Z") == START_MS
    assert epoch_ms("2026-01-01T01:00:00+01:00") == START_MS


def test_descriptions_are_text_not_markup():
    assert plain_markdown("<b>*x*</b>") == r"\<b\>\*x\*\</b\>"


def test_every_counter_of_the_evidence_gets_a_valid_key(on_disk):
    evidence = Evidence(counters={"syncs per step (audited)": 3.0})
    content = describe(on_disk, planned(on_disk, "full"), evidence=evidence)
    assert [p.value for p in content.points if p.name == "evidence/syncs per step _audited_"] == [3.0]
