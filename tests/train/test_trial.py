"""Real trials in this process: records, series, evidence, reproducibility and recorded failures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ablate.analysis.speed.evidence import flags
from ablate.core.recipe import Recipe
from ablate.core.request import TrialRequest
from ablate.core.serialize import to_dict
from ablate.design.cells import make_design
from ablate.records.store import read_record, read_series, write_json
from ablate.train.session import open_session
from ablate.train.trial import execute_trial
from real_parts import tiny_graph, tiny_study

CHURN = "hm/user-churn"
COMPILED = Recipe(execution="compiled", backend="aot_eager")
FULL = replace(
    COMPILED,
    forward_dynamic=True,
    lr_kind="tensor",
    model={"keys": "string"},
    metric_policy="on-device",
    mean_metric="on-device",
)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(folder: Path, recipe: Recipe, workload: str = CHURN, **changes):
    tiny_graph()
    study = tiny_study(workload, **changes)
    write_json(folder / "study.json", study)
    trial = next(
        t for t in make_design(study).trials if t.cell.cell.execution == recipe.execution and t.workload == workload
    )
    request = TrialRequest(
        study_json=str(folder / "study.json"),
        trial=trial,
        recipe=recipe,
        attempt=1,
        record_folder=str(folder),
        cache_state="cold",
    )
    execute_trial(request)
    return read_record(folder), read_series(folder)


def test_an_eager_trial_leaves_a_whole_record(tmp_path):
    record, series = run(tmp_path, Recipe())
    assert record.status == "completed" and record.failure is None
    assert len(series) == 8 and series.epoch.tolist() == [0] * 4 + [1] * 4
    assert series.lr.tolist() == pytest.approx([0.01 * (1 - t / 8) for t in range(8)])
    assert series.loss.notna().all() and record.final_loss == pytest.approx(series.loss.iloc[-1])
    assert record.times.steady_s == record.times.epoch_s[1]
    assert sum(series.step_s[4:]) == pytest.approx(record.times.epoch_s[1], rel=0.5)
    assert (series.loader_wait_s < series.step_s).all()
    assert record.metric.name == "roc_auc" and 0 <= record.metric.value <= 1
    assert record.data.num_steps == 8 and len(record.data.stream_hash) == 16
    assert record.peak_memory_gib > 0.1 and record.peak_device_memory_gib is None
    assert record.environment.packages["torch"] == torch.__version__
    assert record.evidence.counters["compiles.forward"] == 0
    assert record.expectations["tensor_lr"][0]["counter"] == "compiles.optimizer_step"
    assert json.loads((tmp_path / "record.json").read_text()) == to_dict(record)


@pytest.mark.parametrize("workload", ["hm/user-churn", "hm/item-sales", "hm/user-item-purchase"])
def test_two_eager_trials_with_one_seed_are_bitwise_equal(tmp_path, workload):
    (one, first), (two, second) = (run(tmp_path / name, Recipe(), workload) for name in "ab")
    assert first.loss.tolist() == second.loss.tolist()
    assert one.data.stream_hash == two.data.stream_hash
    assert one.metric.value == two.metric.value


def test_the_step_compiles_twice_with_a_float_rate_and_once_with_a_tensor(tmp_path):
    naive, _ = run(tmp_path / "naive", COMPILED)
    torch._dynamo.reset()
    full, _ = run(tmp_path / "full", FULL)
    assert naive.evidence.counters["compiles.optimizer_step"] == 2
    assert full.evidence.counters["compiles.optimizer_step"] == 1
    recompile = [e for e in naive.evidence.events if e.function == "optimizer_step"][1]
    assert recompile.step == 1 and "['lr'] == 0.01" in recompile.reason
    assert naive.evidence.counters["compiles.forward"] > full.evidence.counters["compiles.forward"] == 1
    assert naive.evidence.counters["graph_breaks"] == full.evidence.counters["graph_breaks"] == 0
    assert naive.evidence.counters["compile_s"] >= sum(e.seconds for e in naive.evidence.events) > 0
    assert naive.evidence.counters["compile_s"] < sum(naive.times.epoch_s)
    assert naive.data.stream_hash == full.data.stream_hash


def test_dropping_syncs_shows_in_the_audit(tmp_path):
    syncing, _ = run(tmp_path / "off", Recipe())
    free, _ = run(tmp_path / "on", Recipe(metric_policy="on-device", mean_metric="on-device"))
    assert syncing.evidence.counters["syncs_per_step"] == free.evidence.counters["syncs_per_step"] + 3
    assert sum(syncing.evidence.sync_sources.values()) == syncing.evidence.counters["syncs_per_step"]
    added = set(syncing.evidence.sync_sources) - set(free.evidence.sync_sources)
    assert {line.rpartition("/")[2].partition(":")[0] for line in added} == {"running_loss.py", "aggregation.py"}
    assert all(line.startswith("torch_frame/") for line in free.evidence.sync_sources)  # none of the training loop


def test_compiled_code_is_audited_as_it_runs(tmp_path):
    record, _ = run(tmp_path, FULL)
    evidence = record.evidence
    assert evidence.counters["syncs_per_step"] < evidence.counters["eager_syncs_per_step"]
    assert all(line.endswith(" (compiled)") for line in evidence.sync_sources)
    gone = set(evidence.eager_sync_sources) - {line.removesuffix(" (compiled)") for line in evidence.sync_sources}
    assert {line.split("/")[-1].split(":")[0] for line in gone} == {"positional_encoding.py", "cyclic_encoding.py"}
    assert "forward" in evidence.stages and "encoding" not in evidence.stages


def test_stages_of_an_eager_step(tmp_path):
    record, _ = run(tmp_path, Recipe())
    stages = record.evidence.stages
    assert set(stages) == {
        "loader",
        "copy",
        "encoding",
        "message passing",
        "head",
        "rest of forward",
        "backward",
        "step",
        "metrics",
    }
    assert all(seconds > 0 for name, seconds in stages.items() if name != "rest of forward")


def test_the_learning_rate_of_the_last_step_does_not_reach_the_untimed_passes(tmp_path):
    record, series = run(tmp_path, FULL)  # the schedule ends at 0, where a compiled Adam divides by the rate
    assert series.loss.notna().all() and record.evidence.counters["syncs_per_step"] == 4
    assert not any("torchmetrics" in line for line in record.evidence.sync_sources)


def test_a_rate_on_the_device_trains_as_the_float_does(tmp_path):
    losses = [run(tmp_path / kind, Recipe(lr_kind=kind))[1].loss.tolist() for kind in ("float", "device-tensor")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_compiled_weights_keep_their_names(tmp_path):
    study = tiny_study(CHURN)
    session = open_session(study, CHURN, FULL, seed=0, device=torch.device("cpu"))
    assert list(session.workload.model.state_dict()) == list(
        open_session(study, CHURN, Recipe(), seed=0, device=torch.device("cpu")).workload.model.state_dict()
    )
    assert not session.module.state_dict()  # the weights are the workload's


def test_a_loss_that_is_not_finite_is_recorded_with_its_step(tmp_path):
    record, series = run(tmp_path, Recipe(), lr=1e30, optimizer="sgd", schedule="constant")
    assert record.status == "non-finite"
    first_bad = int((~series.loss.apply(lambda x: x == x and abs(x) != float("inf"))).idxmax())
    assert record.failure.reason.endswith(f"at step {first_bad}")
    assert record.metric is None


def test_a_setting_that_torch_does_not_have_fails_the_trial_with_a_sentence(tmp_path):
    record, _ = run(tmp_path, Recipe(inductor_config={"no_such_setting": 1}))
    assert record.status == "failed"
    assert "no setting 'no_such_setting'" in record.failure.reason
    assert "Traceback" in record.failure.traceback


def test_past_the_recompile_limit_the_hit_is_recorded(tmp_path):
    recipe = replace(COMPILED, backend="eager", forward_dynamic=False, dynamo_config={"recompile_limit": 2})
    try:
        record, _ = run(tmp_path, recipe)
    finally:
        torch._dynamo.config.recompile_limit = 8
    hits = record.evidence.limit_hits
    assert hits and hits[0].function == "forward"
    assert record.evidence.counters["compiles.forward"] == 2
    assert record.evidence.counters["limit_hits"] == len(hits)
    compiled = [e for e in record.evidence.events if e.function == "forward"]
    shapes = [tuple(e.sizes.items()) for e in (*compiled, hits[0])]
    assert len(set(shapes)) == 3 and all(dict(shape)["customer"] >= 16 for shape in shapes)
    assert hits[0].step == 3  # batch 2 has the sizes of batch 0
    flag = flags(record)[0]
    assert flag.startswith("not really compiled: forward eager after step 3; limit hit by article ")
    assert f"transactions {hits[0].sizes['transactions']}" in flag


def test_a_rate_that_is_a_constant_compiles_the_step_eight_times_then_gives_up(tmp_path):
    recipe = replace(FULL, lr_kind="float", step_dynamo_config={"specialize_float": True}, backend="eager")
    record, _ = run(tmp_path, recipe, epochs=2, steps=6)
    assert record.evidence.counters["compiles.optimizer_step"] == 8
    assert [(hit.step, hit.function) for hit in record.evidence.limit_hits] == [(8, "optimizer_step")]
    assert flags(record) == ("not really compiled: optimizer_step eager after step 8", "no steady state")
    assert record.evidence.counters["compiles.forward"] == 1  # the setting holds for the step only
