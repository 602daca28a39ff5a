"""The ledger: stable keys, claims in planned order, leases, and what a crash leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from optuna.trial import FrozenTrial, TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.errors import StoredDataError
from ablate.files.locks import is_held
from ablate.files.paths import StudyPaths
from ablate.records.store import read_record, write_record
from ablate.run.ledger.journal import open_journal
from ablate.run.ledger.ledger import Claim, Held, Ledger
from ablate.run.ledger.lock_owner import lease_path
from ablate.run.ledger.trial_queue import set_aside
from builders import make_workloads
from run_parts import make_record, make_run


def make_ledger(folder: Path) -> tuple[Ledger, tuple[PlannedTrial, ...], StudyPaths]:
    study, design, paths = make_run(folder, blocks=1)
    trials = tuple(sorted(design.trials, key=lambda trial: trial.order))
    return Ledger(study, paths), trials, paths


def entries_of(folder: Path) -> list[FrozenTrial]:
    """Every entry of the journal, in order (several per key after lost leases and retries)."""
    study, paths = _study_and_paths(folder)
    return open_journal(paths.ledger, study.name)[1].get_trials()


def claimed(ledger: Ledger, trials: tuple[PlannedTrial, ...]) -> Claim:
    claim = ledger.claim(trials)
    assert isinstance(claim, Claim)
    return claim


def test_enqueue_adds_each_key_once(tmp_path: Path) -> None:
    ledger, trials, _ = make_ledger(tmp_path)
    assert [ledger.enqueue(trials[:2]), ledger.enqueue(trials), ledger.enqueue(trials)] == [2, 1, 0]
    assert [entry.user_attrs["key"] for entry in entries_of(tmp_path)] == [trial.key for trial in trials]


def test_claims_come_in_list_order_with_the_levels_of_the_cell(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    backwards = trials[::-1]
    claim = claimed(ledger, backwards)
    assert claim.trial == trials[-1]
    assert is_held(lease_path(paths, claim.trial.slug))
    entry = entries_of(tmp_path)[claim.number]
    assert entry.state == TrialState.RUNNING
    expected = {
        "key": claim.trial.key,
        "slug": claim.trial.slug,
        "attempt": 1,
        "workload": "hm/user-churn",
        "block": 0,
        "repeat": 0,
        "execution": claim.trial.cell.cell.execution,
        "levels": dict(claim.trial.cell.cell.levels),
    }
    assert (entry.params, entry.user_attrs) == ({}, expected)
    claim.lease.release()


def test_finish_tells_the_steady_seconds_or_a_failure_with_its_reason(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    first = claimed(ledger, trials)
    ledger.finish(first, make_record(first.trial))
    write_record(paths.records / first.trial.slug, make_record(first.trial))
    second = claimed(ledger, trials)
    ledger.finish(second, make_record(second.trial, status="non-finite"))
    entries = entries_of(tmp_path)
    assert (entries[0].state, entries[0].value) == (TrialState.COMPLETE, 0.5)
    assert (entries[1].state, entries[1].user_attrs["reason"]) == (TrialState.FAIL, "planted")
    assert not is_held(lease_path(paths, second.trial.slug))


def test_put_back_waits_again_with_the_same_attempt(tmp_path: Path) -> None:
    ledger, trials, _ = make_ledger(tmp_path)
    ledger.enqueue(trials)
    ledger.put_back(claimed(ledger, trials))
    again = claimed(ledger, trials)
    assert (again.trial, again.attempt, again.number) == (trials[0], 1, 0)
    again.lease.release()


def test_lost_lease_runs_once_more_and_keeps_the_old_folder(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    lost = claimed(ledger, trials)
    (paths.records / lost.trial.slug).mkdir(parents=True)
    lost.lease.release()  # as if runner and trial were both gone
    again = claimed(ledger, trials)
    assert (again.trial, again.attempt) == (trials[0], 2)
    assert (paths.records / f"{lost.trial.slug}.attempt-1").exists()
    assert entries_of(tmp_path)[0].user_attrs["reason"] == "lost lease"
    again.lease.release()


def test_lost_lease_with_a_record_takes_the_record(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    lost = claimed(ledger, trials)
    write_record(paths.records / lost.trial.slug, make_record(lost.trial))
    lost.lease.release()
    after = claimed(ledger, trials)
    assert after.trial == trials[1]
    assert entries_of(tmp_path)[0].value == 0.5
    after.lease.release()


def test_a_waiting_trial_that_has_a_record_is_closed_not_claimed(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    write_record(paths.records / trials[0].slug, make_record(trials[0]))
    write_record(paths.records / trials[1].slug, make_record(trials[1], status="failed"))
    claim = claimed(ledger, trials)
    assert claim.trial == trials[2]
    first, second, _ = entries_of(tmp_path)
    assert (first.state, first.value) == (TrialState.COMPLETE, 0.5)
    assert (second.state, second.user_attrs["reason"]) == (TrialState.FAIL, "planted")
    assert not is_held(lease_path(paths, trials[0].slug))
    ledger.finish(claim, make_record(trials[2]))
    assert ledger.claim(trials) is None


def test_another_workload_extends_a_ledger(tmp_path: Path) -> None:
    ledger, trials, _ = make_ledger(tmp_path)
    ledger.enqueue(trials)
    ledger.finish(claimed(ledger, trials), make_record(trials[0]))
    study, design, paths = make_run(tmp_path, blocks=1, workloads=make_workloads("hm/user-churn", "hm/item-sales"))
    longer = Ledger(study, paths)
    new = [trial for trial in design.trials if trial.workload == "hm/item-sales"]
    assert longer.enqueue(new) == 3
    claim = longer.claim(new)
    assert isinstance(claim, Claim) and claim.trial == new[0]
    claim.lease.release()


def test_a_held_trial_is_named_and_an_ended_list_gives_none(tmp_path: Path) -> None:
    ledger, trials, _ = make_ledger(tmp_path)
    ledger.enqueue(trials[:1])
    claim = claimed(ledger, trials)
    held = Ledger(*_study_and_paths(tmp_path)).claim(trials)
    assert isinstance(held, Held)
    assert held.trial == trials[0]
    ledger.finish(claim, make_record(trials[0]))
    assert ledger.claim(trials) is None


def test_a_lost_ledger_is_rebuilt_from_the_records(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    write_record(paths.records / trials[0].slug, make_record(trials[0]))
    assert ledger.enqueue(trials) == 2
    assert [entry.value for entry in entries_of(tmp_path) if entry.state == TrialState.COMPLETE] == [0.5]


def test_a_deleted_record_folder_runs_again(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    claim = claimed(ledger, trials)
    write_record(paths.records / claim.trial.slug, make_record(claim.trial))
    ledger.finish(claim, make_record(claim.trial))
    shutil.rmtree(paths.records / claim.trial.slug)
    assert ledger.enqueue(trials) == 1
    again = claimed(ledger, trials)
    assert (again.trial, again.attempt) == (trials[0], 2)
    again.lease.release()


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    with paths.ledger.open("ab") as stream:
        stream.write(b'{"op_code": 4, "study_')
    again = Ledger(*_study_and_paths(tmp_path))
    assert again.enqueue(trials) == 0
    assert len(entries_of(tmp_path)) == 3


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    ledger, trials, paths = make_ledger(tmp_path)
    ledger.enqueue(trials)
    paths.ledger.write_bytes(b"not json\n" + paths.ledger.read_bytes())
    with pytest.raises(StoredDataError, match=r"ledger.journal cannot be read .* move it away"):
        Ledger(*_study_and_paths(tmp_path))


def _study_and_paths(folder: Path):  # type: ignore[no-untyped-def]
    study, _, paths = make_run(folder, blocks=1)
    return study, paths


def test_a_ledger_made_anew_knows_the_attempts_that_were_set_aside(tmp_path: Path) -> None:
    """Attempt 1 failed, attempt 2 waits, and the journal is moved away: nothing takes the place of attempt 1."""
    ledger, trials, paths = make_ledger(tmp_path)
    folder = paths.records / trials[0].slug
    write_record(folder, make_record(trials[0], status="failed"))
    ledger.enqueue(trials[:1], retry_failed=True)
    first = folder.with_name(f"{folder.name}.attempt-1")
    kept = (first / "record.json").read_bytes()
    ledger.close()
    paths.ledger.unlink()
    anew, _, _ = make_ledger(tmp_path)
    anew.enqueue(trials[:1])
    claim = claimed(anew, trials[:1])
    assert claim.attempt == 2
    write_record(folder, make_record(trials[0], status="failed", attempt=2))
    anew.finish(claim, read_record(folder))
    anew.enqueue(trials[:1], retry_failed=True)
    assert (first / "record.json").read_bytes() == kept
    assert read_record(folder.with_name(f"{folder.name}.attempt-2")).identity.attempt == 2
    anew.close()


def test_an_attempt_is_never_set_aside_in_place_of_another_record(tmp_path: Path) -> None:
    _, trials, paths = make_ledger(tmp_path)
    folder = paths.records / trials[0].slug
    for number in (1, 4):
        write_record(folder.with_name(f"{folder.name}.attempt-{number}"), make_record(trials[0], attempt=number))
    write_record(folder, make_record(trials[0], status="failed"))
    set_aside(folder, 1)
    assert read_record(folder.with_name(f"{folder.name}.attempt-5")).status == "failed"
    assert read_record(folder.with_name(f"{folder.name}.attempt-1")).completed and not folder.exists()
