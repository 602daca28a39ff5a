"""Records read back: as they were left, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.core.errors import StoredDataError
from ablate.core.evidence import Gpu
from ablate.core.record import Failure, TrialRecord, content_digest
from ablate.core.serialize import to_dict
from ablate.records.store import SERIES, inspect_record, read_record, write_json, write_record, write_series
from run_parts import make_record, make_run


@pytest.fixture
def record(tmp_path: Path) -> TrialRecord:
    """A record of one epoch, in `<tmp_path>/a`, with a series."""
    _, design, _ = make_run(tmp_path)
    record = make_record(design.trials[0])
    write_loss(tmp_path / "a", 1.0)
    write_record(tmp_path / "a", record)
    return record


def write_loss(folder: Path, loss: float) -> None:
    write_series(folder, {**dict.fromkeys(SERIES.columns, (0, 1)), "loss": [loss, loss]})


def edit(path: Path, **times: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "times": {**content["times"], **times}}))


def test_what_is_as_it_was_left_is_read_whatever_its_layout(record: TrialRecord, tmp_path: Path) -> None:
    path = tmp_path / "a" / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    found, altered = inspect_record(tmp_path / "a", tables=True)
    assert (replace(found, files={}, digest=""), altered) == (record, "")


@pytest.mark.usefixtures("record")
def test_an_edited_time_is_refused(tmp_path: Path) -> None:
    edit(tmp_path / "a" / "record.json", epoch_s=[0.0023])
    with pytest.raises(StoredDataError, match=r"record\.json was changed after the trial had ended; delete its folder"):
        read_record(tmp_path / "a")


@pytest.mark.usefixtures("record")
def test_a_deleted_series_is_missed(tmp_path: Path) -> None:
    (tmp_path / "a" / "series.parquet").unlink()
    with pytest.raises(StoredDataError, match=r"a/series\.parquet is missing; delete its folder"):
        read_record(tmp_path / "a")


@pytest.mark.usefixtures("record")
def test_a_table_that_came_later_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "predictions.parquet").write_bytes(b"")
    with pytest.raises(StoredDataError, match=r"predictions\.parquet came after the trial had ended"):
        read_record(tmp_path / "a")


@pytest.mark.usefixtures("record")
def test_a_series_of_another_trial_is_told_apart(tmp_path: Path) -> None:
    write_loss(tmp_path / "a", 2.0)
    path = tmp_path / "a" / "series.parquet"
    assert inspect_record(tmp_path / "a", tables=True)[1] == f"{path} was changed after the trial had ended"


def test_an_old_record_has_no_digest_and_its_steady_time_is_that_of_its_epochs(
    record: TrialRecord, tmp_path: Path
) -> None:
    old = {k: v for k, v in to_dict(record).items() if k not in ("files", "digest")}
    times = {**old["times"], "epoch_s": [3.0, 0.5, 0.75, 0.25], "steady_epochs": [1, 2, 3]}
    write_json(tmp_path / "a" / "record.json", {**old, "format": 2, "times": {**times, "steady_s": 0.5 / 221}})
    (tmp_path / "a" / "series.parquet").unlink()
    found = read_record(tmp_path / "a").times
    # median of 0.5, 0.75, 0.25; 4.5 s in all, less 4 x 0.5 s; 2.5 s and ten epochs of 0.5 s
    assert found is not None and (found.steady_s, found.startup_s, found.horizon_s) == (0.5, 2.5, 7.5)


def test_the_environment_of_an_old_record_is_read(record: TrialRecord, tmp_path: Path) -> None:
    start = {"load_average": 1, "gpu": {"driver": "570.1", "sm_clock_mhz": 1980, "throttles": ["idle"]}}
    told = {"python": "3.11", "sampler": "native", "git_commit": None, "machine": {"start": start, "foreign_cpus": 0.5}}
    write_json(tmp_path / "a" / "record.json", {**to_dict(record), "format": 2, "environment": told})
    found = read_record(tmp_path / "a").environment
    assert (found.python, found.num_cpus, found.machine.foreign_cpus) == ("3.11", None, 0.5)
    assert found.machine.start.gpu == Gpu(driver="570.1", sm_clock_mhz=1980.0, throttles=("idle",))


def test_a_record_from_before_a_stage_could_fail_has_the_host_s_step_times(record: TrialRecord, tmp_path: Path) -> None:
    new = ("failed_after", "peak_reserved_memory_gib", "digest")
    old = {**{k: v for k, v in to_dict(record).items() if k not in new}, "format": 3}
    del old["times"]["step_clock"]
    write_json(tmp_path / "a" / "record.json", {**old, "digest": content_digest(old)})
    (tmp_path / "a" / "series.parquet").unlink()
    found = read_record(tmp_path / "a")
    assert (found.failed_after, found.peak_reserved_memory_gib) == ((), None)
    assert found.times is not None and found.times.step_clock == "host"


def test_a_series_has_the_host_s_step_times_where_they_are_others(tmp_path: Path) -> None:
    columns = {name: [1.0, 2.0] for name in SERIES.columns}
    SERIES.write(tmp_path / "cpu", columns)
    SERIES.write(tmp_path / "gpu", {**columns, "host_step_s": [0.25, 0.5]})
    assert tuple(SERIES.read(tmp_path / "cpu").columns) == SERIES.columns
    assert SERIES.read(tmp_path / "gpu")["host_step_s"].tolist() == [0.25, 0.5]


@pytest.mark.usefixtures("record")
def test_steady_epochs_that_were_never_trained_are_refused(tmp_path: Path) -> None:
    edit(tmp_path / "a" / "record.json", steady_epochs=[0, 7])
    with pytest.raises(StoredDataError, match=r"cannot be read \(steady epochs \(0, 7\) of 1 epochs\)"):
        read_record(tmp_path / "a")


@pytest.mark.parametrize("reason", ["no \udcff there", "no \\udcff there", "\\\\u"])
def test_half_a_letter_does_not_change_the_digest(record: TrialRecord, tmp_path: Path, reason: str) -> None:
    write_record(tmp_path / "a", replace(record, failure=Failure(reason=reason)))
    found = read_record(tmp_path / "a").failure
    assert found is not None and found.reason == reason.replace("\udcff", "\\udcff")
