"""Parity trials through run_study, trainer faked: after the timed ones, eager first, each once, with its reference."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from ablate.core.errors import UserError
from ablate.core.record import TrialRecord
from ablate.core.request import TrialRequest
from ablate.core.study import Equivalence
from ablate.design.recipes import compose_recipes, for_parity
from ablate.records.store import read_design, read_json, read_record, write_record
from ablate.run.compile_cache import close_cache, open_cache
from ablate.run.ledger.journal import JournalStore
from ablate.run.ledger.ledger import Claim, Held, Ledger
from ablate.run.options import RunOptions
from ablate.run.outcome import RunOutcome
from ablate.run.progress import PlainProgress, SilentProgress
from ablate.run.rerun import rerun_trial
from ablate.run.runner import run_study
from builders import make_factors, make_workloads
from run_parts import (
    FAKE_COMMAND,
    assert_one_at_a_time,
    drive,
    make_record,
    make_run,
    read_log,
    read_statuses,
    wait_until,
)

ONE = {"factors": make_factors(("dynamic_shapes",)), "blocks": 1}  # eager, naive, full, timed and parity


def with_parity(folder: Path, parity: str = "default", **changes: Any) -> Any:
    """Study, design and paths of three timed trials, and parity trials."""
    return make_run(folder, equivalence=Equivalence(parity=parity), **{**ONE, **changes})  # type: ignore[arg-type]


def run_small(
    folder: Path, parity: str = "default", changes: dict[str, Any] | None = None, **options: Any
) -> RunOutcome:
    study, design, paths = with_parity(folder, parity, **(changes or {}))
    progress = options.pop("progress", SilentProgress())
    return run_study(study, design, paths, progress, RunOptions(**options), command=FAKE_COMMAND)


def read_requests(folder: Path) -> dict[str, TrialRequest]:
    """Request of each parity trial by arm."""
    _, design, paths = with_parity(folder)
    return {t.cell.name: read_json(paths.records / t.slug / "request.json", TrialRequest) for t in design.parity}


def record_of(folder: Path, arm: str) -> TrialRecord:
    _, design, paths = with_parity(folder)
    return read_record(paths.records / next(t.slug for t in design.parity if t.cell.name == arm))


def test_parity_trials_come_after_all_timed_ones_and_are_counted_apart(tmp_path: Path) -> None:
    _, design, _ = with_parity(tmp_path, blocks=2)
    outcome = run_small(tmp_path, changes={"blocks": 2})
    starts = read_log(tmp_path, "start")
    assert ["parity(" in key for key in starts] == [False] * 6 + [True] * 3
    assert starts[6:] == [trial.key for trial in design.parity]
    assert (outcome.planned, outcome.completed, outcome.trained) == (6, 6, 6)
    assert (outcome.parity_planned, outcome.parity_completed, outcome.parity_trained) == (3, 3, 3)
    again = run_small(tmp_path, changes={"blocks": 2})
    assert (again.trained, again.parity_trained, again.parity_completed, again.exit_code) == (0, 0, 3, 0)


def test_an_arm_gets_the_folder_of_its_eager_reference(tmp_path: Path) -> None:
    _, design, paths = with_parity(tmp_path)
    run_small(tmp_path)
    requests = read_requests(tmp_path)
    eager = str(paths.records / design.parity[0].slug)
    assert [requests[arm].reference_folder for arm in ("eager", "naive", "full")] == [None, eager, eager]
    assert {request.trial.windows for request in requests.values()} == {(0,)}
    assert (Path(eager) / "checkpoints" / "step-000000.pt").exists()  # the fake arms have read it


def test_compiled_parity_trials_draw_masks_as_eager_does_and_timed_ones_do_not(tmp_path: Path) -> None:
    study, design, _ = with_parity(tmp_path)
    timed = compose_recipes(study, design)[design.parity[1].cell.cell.key]
    assert dict(timed.inductor_config) == {}
    run_small(tmp_path)
    recipes = {arm: request.recipe for arm, request in read_requests(tmp_path).items()}
    assert dict(recipes["naive"].inductor_config) == {"fallback_random": True}
    assert recipes["naive"] == for_parity(timed)
    assert dict(recipes["eager"].inductor_config) == {}
    assert dict(record_of(tmp_path, "full").recipe["inductor_config"]) == {"fallback_random": True}


def test_cells_that_only_parity_trials_train_have_recipes(tmp_path: Path) -> None:
    study, design, _ = with_parity(tmp_path, cells=with_parity(tmp_path)[0].cells[:1])
    assert [cell.name for cell in design.cells] == ["eager"]
    assert set(compose_recipes(study, design)) == {trial.cell.cell.key for trial in design.parity}


def test_parity_trials_neither_warm_nor_use_the_caches_of_timed_ones(tmp_path: Path) -> None:
    _, design, paths = with_parity(tmp_path, "all", blocks=2)
    timed = {(t.cell.name, t.block): t for t in design.trials}
    parity = {(t.cell.name, t.block): t for t in design.parity}
    for policy in ("per-cell", "shared", "none"):
        found = [open_cache(policy, trials["naive", 0], 1, paths) for trials in (timed, parity)]
        assert found[0].folder != found[1].folder
    first = open_cache("per-cell", parity["naive", 0], 1, paths)
    write_record(paths.records / parity["naive", 0].slug, make_record(parity["naive", 0]))
    assert open_cache("per-cell", timed["naive", 1], 1, paths).state == "cold"
    close_cache(first, completed=True)
    assert first.folder.is_relative_to(paths.compile_cache / "parity")


def test_without_its_eager_reference_an_arm_is_recorded_as_failed_and_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"parity-eager": "crash"}))
    outcome = run_small(tmp_path)
    assert (outcome.completed, outcome.parity_completed, outcome.parity_trained, outcome.exit_code) == (3, 0, 1, 2)
    assert sum("parity(" in key for key in read_log(tmp_path, "start")) == 1
    assert {trial.purpose for trial in outcome.failed} == {"parity"}
    assert outcome.failed[1].reason == (
        "not trained: its eager reference did not complete (failed: the process ended with exit code 7 and left no "
        "record)"
    )
    assert record_of(tmp_path, "naive").identity.purpose == "parity"
    monkeypatch.delenv("FAKE_BEHAVIOR")
    assert run_small(tmp_path).parity_trained == 0  # failures are never retried by themselves
    again = run_small(tmp_path, retry_failed=True)
    assert (again.trained, again.parity_trained, again.parity_completed, again.exit_code) == (0, 3, 3, 0)
    assert record_of(tmp_path, "naive").identity.attempt == 2


def test_one_arm_that_fails_leaves_the_others_and_the_timed_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, paths = with_parity(tmp_path)
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"parity-naive": "non-finite"}))
    outcome = run_small(tmp_path)
    assert (outcome.completed, outcome.parity_completed, outcome.exit_code) == (3, 2, 2)
    assert read_statuses(paths) == {
        "eager/0": "completed", "naive/0": "completed", "full/0": "completed",
        "parity eager/0": "completed", "parity naive/0": "non-finite", "parity full/0": "completed",
    }  # fmt: skip


def test_one_workload_with_its_own_reference(tmp_path: Path) -> None:
    changes = {"workloads": make_workloads("hm/user-churn", "hm/item-sales")}
    outcome = run_small(tmp_path, changes=changes, workloads=("hm/item-sales",))
    assert (outcome.planned, outcome.parity_planned) == (3, 3)
    assert all(key.startswith("hm/item-sales") for key in read_log(tmp_path, "start"))
    both = run_small(tmp_path, changes=changes)
    assert (both.planned, both.parity_planned, both.parity_trained) == (6, 6, 3)


def test_the_stored_design_grows_with_blocks_and_follows_what_the_spec_asks_for(tmp_path: Path) -> None:
    _, _, paths = with_parity(tmp_path)
    run_small(tmp_path, "all", {"blocks": 2})
    assert [trial.block for trial in read_design(paths.design_json).parity] == [0, 0, 0, 1, 1, 1]
    outcome = run_small(tmp_path, "all")
    assert (outcome.parity_planned, outcome.parity_trained) == (3, 0)
    assert len(read_design(paths.design_json).parity) == 6
    run_small(tmp_path, "off")
    assert read_design(paths.design_json).parity == ()
    outcome = run_small(tmp_path, "default")  # another set of windows is another trial
    assert (outcome.parity_planned, outcome.parity_trained) == (3, 3)
    assert {trial.windows for trial in read_design(paths.design_json).parity} == {(0,)}
    outcome = run_small(tmp_path, "all", {"blocks": 2})
    assert (outcome.parity_planned, outcome.parity_trained, outcome.parity_completed) == (6, 0, 6)


def test_kill_minus_nine_while_parity_trains_then_again_every_trial_once(tmp_path: Path) -> None:
    first = drive(tmp_path, "--parity", "default", "--blocks", "1", FAKE_SLEEP_S="0.6")
    wait_until(lambda: any("parity(" in key for key in read_log(tmp_path, "start")), 30.0)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    outcome = run_small(tmp_path, changes={"factors": make_factors(("dynamic_shapes", "tensor_lr"))})
    starts = read_log(tmp_path, "start")
    assert (outcome.completed, outcome.parity_completed) == (3, 5)
    assert len(starts) == 8 == len(set(starts))
    assert_one_at_a_time(tmp_path)


def test_an_interrupted_parity_trial_leaves_no_record_and_runs_again(tmp_path: Path) -> None:
    first = drive(tmp_path, "--parity", "default", "--blocks", "1", FAKE_SLEEP_S="0.5")
    wait_until(lambda: sum("parity(" in key for key in read_log(tmp_path, "start")) == 2, 90.0)
    os.kill(first.pid, signal.SIGINT)
    assert first.wait(10) == 3
    factors = {"factors": make_factors(("dynamic_shapes", "tensor_lr"))}
    _, _, paths = with_parity(tmp_path, **factors)
    assert "parity naive/0" not in read_statuses(paths)
    outcome = run_small(tmp_path, changes=factors)
    assert (outcome.trained, outcome.parity_trained, outcome.parity_completed) == (0, 4, 5)


def test_two_runners_share_parity_trials_and_no_arm_starts_before_its_reference(tmp_path: Path) -> None:
    flags = ("--parity", "default", "--blocks", "1")
    both = [drive(tmp_path, *flags, FAKE_SLEEP_S="0.1") for _ in range(2)]
    assert [process.wait(180) for process in both] == [0, 0]
    starts = read_log(tmp_path, "start")
    assert len(starts) == 8 == len(set(starts))
    assert next(key for key in starts if "parity(" in key).endswith("eager[]")


def test_the_ledger_holds_arms_back_until_eager_has_ended(tmp_path: Path) -> None:
    study, design, paths = with_parity(tmp_path)
    ledger = Ledger(study, paths)
    ledger.enqueue(design.parity)
    eager = ledger.claim(design.parity)
    assert isinstance(eager, Claim)
    assert eager.trial == design.parity[0]
    other = Ledger(study, paths).claim(design.parity)
    assert isinstance(other, Held)
    assert ledger.claim(design.parity[1:]) is None  # whatever waits in this list waits for eager
    write_record(paths.records / eager.trial.slug, make_record(eager.trial))
    ledger.finish(eager, make_record(eager.trial))
    naive = ledger.claim(design.parity)
    assert isinstance(naive, Claim)
    assert naive.trial == design.parity[1]
    ledger.finish(naive, make_record(naive.trial, status="failed"))
    ledger.close()
    store = JournalStore(study.name, paths)
    states = [(entry.state, entry.user_attrs.get("status")) for entry in store.optuna_study.get_trials()]
    store.close()
    assert states[:2] == [(TrialState.PRUNED, "completed"), (TrialState.FAIL, "failed")]


def test_leftovers_of_an_interrupted_start_are_removed(tmp_path: Path) -> None:
    _, design, paths = with_parity(tmp_path)
    folder = paths.records / design.parity[0].slug
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("parity.parquet", "predictions.parquet", "checkpoints/step-000020.pt"):
        (folder / name).write_text("half written")
    run_small(tmp_path)
    assert not (folder / "parity.parquet").exists()
    assert not (folder / "predictions.parquet").exists()
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step-000000.pt"]


def test_an_arm_is_trained_again_with_the_same_reference(tmp_path: Path) -> None:
    _, design, paths = with_parity(tmp_path)
    run_small(tmp_path)
    naive = paths.records / design.parity[1].slug
    record = rerun_trial(naive, tmp_path / "again", SilentProgress(), FAKE_COMMAND)
    assert (record.completed, record.identity.purpose, record.cache_state) == (True, "parity", "cold")
    assert read_json(tmp_path / "again" / "request.json", TrialRequest).reference_folder == str(
        paths.records / design.parity[0].slug
    )
    shutil.rmtree(paths.records / design.parity[0].slug)
    with pytest.raises(UserError, match=r"its eager reference .*parity-eager.* is gone; `ablate run SPEC` trains"):
        rerun_trial(naive, tmp_path / "more", SilentProgress(), FAKE_COMMAND)
    assert not (tmp_path / "more").exists()


def test_progress_says_parity_and_counts_it_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BEHAVIOR", json.dumps({"parity-full": "unaligned"}))
    stream = io.StringIO()
    run_small(tmp_path, progress=PlainProgress(stream))
    lines = stream.getvalue().splitlines()
    assert [line[:16] for line in lines[1:4]] == [f"[{n}/3] hm/user-ch" for n in (1, 2, 3)]
    assert lines[4].startswith("[1/3] parity of hm/user-churn eager block 0 ... ")
    assert lines[5].startswith("[2/3] parity of hm/user-churn naive block 0 (cold cache) ... ")
    assert not any("steady" in line for line in lines[4:])
    assert lines[6].endswith("s, dropout masks not aligned")
