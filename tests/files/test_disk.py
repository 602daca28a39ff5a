"""Files that appear whole or not at all: who may read them, and what a failure leaves."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.files.disk import written_durably
from ablate.records.store import PARITY, write_json, write_parity


@pytest.fixture(params=[0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_colleagues_may_read_what_the_umask_lets_them_read(umask: int, tmp_path: Path) -> None:
    write_json(tmp_path / "record.json", {"a": 1})
    write_parity(tmp_path, {key: [0] for key in PARITY.columns})
    expected = {0o022: 0o644, 0o077: 0o600}[umask]
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {
        "record.json": expected,
        "parity.parquet": expected,
    }


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    with pytest.raises(RuntimeError), written_durably(path) as stream:
        stream.write(b"half of the new")
        raise RuntimeError
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"record.json": "old"}
