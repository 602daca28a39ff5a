"""A ledger in PostgreSQL, with a server of its own: claims, heartbeats, restarts of the server, secrets."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.trial import TrialState

from ablate.core.cell import PlannedTrial
from ablate.core.errors import UserError
from ablate.core.study import Study
from ablate.files.paths import StudyPaths
from ablate.records.store import read_record, write_record
from ablate.run.ledger.ledger import Claim, Held, Ledger
from ablate.run.ledger.open import find_address, find_running, open_store
from ablate.run.ledger.postgresql import PostgresStore, parse_address, visible_address
from ablate.run.options import RunOptions
from ablate.run.progress import SilentProgress
from ablate.run.runner import run_study
from benchmarks.chaos.cluster import Cluster, running_cluster
from run_parts import FAKE_COMMAND, drive, log_lines, make_record, make_run, read_log, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        yield running


@pytest.fixture(autouse=True)
def beats_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABLATE_HEARTBEAT_S", "1")


def make_named_run(folder: Path, name: str, **changes: object) -> tuple[Study, tuple[PlannedTrial, ...], StudyPaths]:
    """A study with a name of its own, since all share one database."""
    study, design, paths = make_run(folder, name=name, **changes)
    return study, tuple(sorted(design.trials, key=lambda trial: (trial.block, trial.order))), paths


def open_ledger(study: Study, paths: StudyPaths, cluster: Cluster) -> Ledger:
    return Ledger(study, paths, store=open_store(study, paths, address=cluster.address))


def claimed(ledger: Ledger, trials: tuple[PlannedTrial, ...]) -> Claim:
    claim = ledger.claim(trials)
    assert isinstance(claim, Claim)
    return claim


def read_states(study: Study, paths: StudyPaths, cluster: Cluster) -> list[tuple[str, int, TrialState]]:
    store = open_store(study, paths, address=cluster.address)
    entries = store.optuna_study.get_trials()
    store.close()
    return [(entry.user_attrs["key"], entry.user_attrs["attempt"], entry.state) for entry in entries]


def test_two_workers_share_blocks_and_tell_results(tmp_path: Path, cluster: Cluster) -> None:
    study, trials, paths = make_named_run(tmp_path, "share")
    one, two = open_ledger(study, paths, cluster), open_ledger(study, paths, cluster)
    assert (one.enqueue(trials), two.enqueue(trials)) == (6, 0)
    first, second = claimed(one, trials), claimed(two, trials)
    assert (first.trial, second.trial) == (trials[0], trials[3])  # another block
    one.finish(first, make_record(first.trial))
    write_record(paths.records / first.trial.slug, make_record(first.trial))
    third = two.claim(trials[:3])
    assert isinstance(third, Held)  # the block is the first worker's, though nothing of it runs
    one.close()
    taken = claimed(two, trials[:3])
    assert taken.trial == trials[1]
    two.put_back(taken)
    two.finish(second, make_record(second.trial, status="failed"))
    two.close()
    states = {(key, attempt): state for key, attempt, state in read_states(study, paths, cluster)}
    assert states[trials[0].key, 1] == TrialState.COMPLETE
    assert states[trials[1].key, 1] == TrialState.WAITING
    assert states[trials[3].key, 1] == TrialState.FAIL


def test_a_trial_is_taken_over_when_its_heartbeats_have_stopped_for_six_intervals(
    tmp_path: Path, cluster: Cluster
) -> None:
    study, trials, paths = make_named_run(tmp_path, "stale", blocks=1)
    one, two = open_ledger(study, paths, cluster), open_ledger(study, paths, cluster)
    one.enqueue(trials)
    lost = claimed(one, trials[:1])
    assert isinstance(two.claim(trials[:1]), Held)
    one.close()  # its block is free, its trial is not: a process may still end
    stopped = time.monotonic()
    assert isinstance(two.claim(trials[:1]), Held)
    while not isinstance(taken := two.claim(trials[:1]), Claim):
        time.sleep(0.2)
    assert 5.0 < time.monotonic() - stopped < 20.0
    assert (taken.trial.key, taken.attempt) == (lost.trial.key, 2)
    two.put_back(taken)
    two.close()


def test_a_lost_trial_that_had_left_its_record_counts(tmp_path: Path, cluster: Cluster) -> None:
    study, trials, paths = make_named_run(tmp_path, "left", blocks=1)
    one, two = open_ledger(study, paths, cluster), open_ledger(study, paths, cluster)
    one.enqueue(trials)
    lost = claimed(one, trials)
    write_record(paths.records / lost.trial.slug, make_record(lost.trial))
    one.close()
    assert claimed(two, trials).trial == trials[1]
    assert (trials[0].key, 1, TrialState.COMPLETE) in read_states(study, paths, cluster)
    one.finish(lost, make_record(lost.trial))  # told twice does no harm
    two.close()


def test_kill_minus_nine_of_a_worker_takes_its_trial_along_and_another_one_goes_on(
    tmp_path: Path, cluster: Cluster
) -> None:
    study, trials, paths = make_named_run(tmp_path, "killed")
    flags = ("--study", "killed")
    first = drive(tmp_path, *flags, FAKE_SLEEP_S="60", ABLATE_LEDGER=cluster.address, ABLATE_LOCKS=str(tmp_path / "1"))
    wait_until(lambda: len(read_log(tmp_path, "start")) == 1, seconds=60)
    child = int(log_lines(tmp_path)[-1][1])
    running = find_running(study, paths, cluster.address)
    assert running is not None
    assert {slug: owner.parent for slug, owner in running.items()} == {trials[0].slug: first.pid}
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists())
    second = drive(tmp_path, *flags, ABLATE_LEDGER=cluster.address, ABLATE_LOCKS=str(tmp_path / "2"))
    assert second.wait(120) == 0
    starts = read_log(tmp_path, "start")
    assert sorted(starts) == sorted([trials[0].key, *(trial.key for trial in trials)])
    assert read_record(paths.records / trials[0].slug).identity.attempt == 2
    assert {state for _, _, state in read_states(study, paths, cluster)} == {TrialState.COMPLETE, TrialState.FAIL}


def test_the_password_is_nowhere(tmp_path: Path, cluster: Cluster) -> None:
    process = drive(tmp_path, "--study", "secret", "--blocks", "1", ABLATE_LEDGER=cluster.address)
    assert process.wait(120) == 0
    study, _, _ = make_named_run(tmp_path, "secret")
    wrong = cluster.address.replace(cluster.password, "not-the-password")
    with pytest.raises(UserError, match=r"cannot be used .*password authentication failed") as caught:
        PostgresStore(wrong, study.name, "x", 1, {})
    assert "not-the-password" not in str(caught.value)
    with pytest.raises(UserError) as caught:
        parse_address(f"mysql://me:{cluster.password}@host/x")
    assert cluster.password not in str(caught.value)
    with pytest.raises(UserError, match="not one of PostgreSQL"):
        parse_address("postgresql://me@host:port/x")
    told = [path for path in tmp_path.rglob("*") if path.is_file() and cluster.password.encode() in path.read_bytes()]
    assert told == []
    hidden = visible_address(
        "postgresql://me:secret@a:5433/x?host=b&sslmode=require&password=secret&sslpassword=secret"
    )
    assert hidden == "postgresql://me@a:5433/x?host=b&sslmode=require"
    assert visible_address(cluster.address) == f"postgresql://ablate@127.0.0.1:{cluster.port}/postgres"


def test_one_study_has_one_ledger_and_one_folder(tmp_path: Path, cluster: Cluster) -> None:
    study, _, paths = make_named_run(tmp_path, "folders")
    ledger = open_ledger(study, paths, cluster)
    ledger.close()
    where = r"has its ledger at postgresql://ablate@127\.0\.0\.1:\d+/postgres; name it with --ledger"
    with pytest.raises(UserError, match=where):
        open_store(study, paths)
    _, _, elsewhere = make_named_run(tmp_path / "elsewhere", "folders")
    with pytest.raises(UserError, match="whose records lie in another folder"):
        open_store(study, elsewhere, address=cluster.address)
    other, _, with_journal = make_named_run(tmp_path, "journal")
    open_store(other, with_journal)
    with pytest.raises(UserError, match=r"has its ledger in .*ledger.journal; to go on with PostgreSQL"):
        open_store(other, with_journal, address=cluster.address)


def test_the_option_goes_before_the_variable_before_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, _, _ = make_named_run(tmp_path, "address", ledger="postgresql://host/spec")
    assert find_address(study) == "postgresql://host/spec"
    monkeypatch.setenv("ABLATE_LEDGER", "postgresql://host/variable")
    assert find_address(study) == "postgresql://host/variable"
    assert find_address(study, "postgresql://host/option") == "postgresql://host/option"


def test_a_server_that_restarts_costs_nothing(tmp_path: Path) -> None:
    with running_cluster() as own:
        worker = drive(
            tmp_path, "--study", "restart", "--blocks", "1", FAKE_SLEEP_S="2", ABLATE_LEDGER=own.address,
            ABLATE_HEARTBEAT_S="5",
        )  # fmt: skip
        wait_until(lambda: len(read_log(tmp_path, "start")) == 1, seconds=60)
        own.stop()
        own.start()
        assert worker.wait(120) == 0
        starts = read_log(tmp_path, "start")
        assert len(starts) == 3 == len(set(starts))


@pytest.mark.slow
def test_a_server_that_is_away_for_less_than_the_grace_costs_nothing(tmp_path: Path) -> None:
    with running_cluster() as own:
        worker = drive(
            tmp_path, "--study", "away", "--blocks", "1", FAKE_SLEEP_S="2", ABLATE_LEDGER=own.address,
            ABLATE_HEARTBEAT_S="8",
        )  # fmt: skip
        wait_until(lambda: len(read_log(tmp_path, "start")) == 1, seconds=60)
        own.stop()
        time.sleep(15)  # of 24; the first trial ends meanwhile
        own.start()
        assert worker.wait(120) == 0
        starts = read_log(tmp_path, "start")
        assert len(starts) == 3 == len(set(starts))


@pytest.mark.slow
def test_a_worker_that_missed_a_beat_does_not_wait_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABLATE_HEARTBEAT_S", "8")
    with running_cluster() as own:
        study, _, paths = make_named_run(tmp_path, "missed")
        store = open_store(study, paths, address=own.address)
        assert isinstance(store, PostgresStore)
        own.stop()
        time.sleep(8.5)
        back = time.monotonic()
        own.start()
        wait_until(lambda: store._beats._last > back, seconds=5)  # the next beat is due after 7.5 s
        store.close()


def test_a_worker_that_is_cut_off_ends_its_trial_and_says_so(tmp_path: Path) -> None:
    with running_cluster() as own:
        study, trials, paths = make_named_run(tmp_path, "cut", blocks=1)
        worker = drive(tmp_path, "--study", "cut", "--blocks", "1", FAKE_SLEEP_S="60", ABLATE_LEDGER=own.address)
        wait_until(lambda: len(read_log(tmp_path, "start")) == 1, seconds=60)
        child = int(log_lines(tmp_path)[-1][1])
        own.stop()
        assert worker.wait(60) == 1
        said = (tmp_path / "driver.txt").read_text()
        assert f"trial {trials[0].key} was ended: this worker could not reach the ledger for some time" in said
        assert not Path(f"/proc/{child}").exists()
        assert not (paths.records / trials[0].slug / "record.json").exists()
        with pytest.raises(UserError, match=r"the ledger at postgresql://.* cannot be used \(connection to .*refused"):
            open_store(study, paths, address=own.address)
        own.start()
        design = make_run(tmp_path, name="cut", blocks=1)[1]
        outcome = run_study(
            study, design, paths, SilentProgress(), RunOptions(ledger=own.address), command=FAKE_COMMAND
        )
        assert (outcome.completed, outcome.exit_code) == (3, 0)


def test_heartbeats_are_whole_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    study, _, paths = make_named_run(tmp_path, "beats")
    for text in ("soon", "²"):
        monkeypatch.setenv("ABLATE_HEARTBEAT_S", text)
        with pytest.raises(UserError, match=f"ABLATE_HEARTBEAT_S is '{text}'; give whole seconds from 1 to 3600"):
            open_store(study, paths, address=cluster.address)


def test_a_ledger_of_postgresql_has_no_journal_beside_it(tmp_path: Path, cluster: Cluster) -> None:
    study, _, paths = make_named_run(tmp_path, "beside")
    open_ledger(study, paths, cluster).close()
    assert sorted(path.name for path in paths.root.iterdir()) == ["ledger.json"]
    note = json.loads((paths.root / "ledger.json").read_text())
    assert note["address"] == visible_address(cluster.address)
