"""Device locks that all users of a host share, and lock files that somebody else may have planted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.core.errors import UserError
from ablate.files.locks import FileLock
from ablate.run.devices import cpu_device
from ablate.run.ledger.lock_owner import LockOwner
from run_parts import assert_one_at_a_time, drive, read_log


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def refuse_to_wait(owner: LockOwner) -> None:
    raise AssertionError(f"held by {owner}")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("narrow_umask")
def test_every_user_can_take_the_lock_and_nobody_can_remove_it(tmp_path: Path) -> None:
    device = cpu_device()
    with device.lock(refuse_to_wait):
        assert device.lock_path.parent == tmp_path / "locks"
        assert (mode(tmp_path / "locks"), mode(device.lock_path)) == (0o1777, 0o666)
        assert FileLock.try_acquire(device.lock_path) is None
    device.lock(refuse_to_wait).release()


def test_locks_elsewhere_are_the_users_own(tmp_path: Path) -> None:
    lock = FileLock.try_acquire(tmp_path / "leases" / "a.lock")
    assert lock is not None and mode(lock.path) & 0o022 == 0
    lock.release()


def test_a_planted_link_is_neither_followed_nor_written(tmp_path: Path) -> None:
    device, precious = cpu_device(), tmp_path / "precious.txt"
    precious.write_text("mine")
    (tmp_path / "locks").mkdir()
    device.lock_path.symlink_to(precious)
    with pytest.raises(UserError, match=r"cannot lock .*; set ABLATE_LOCKS to a folder"):
        device.lock(refuse_to_wait)
    assert precious.read_text() == "mine"


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("ABLATE_LOCKS", str(tmp_path / "link"))
    with pytest.raises(UserError, match="Not a directory"):
        cpu_device().lock(refuse_to_wait)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_without_the_variable_the_folder_is_one_per_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABLATE_LOCKS")
    monkeypatch.setenv("TMPDIR", "/somewhere")
    monkeypatch.setenv("ABLATE_CACHE", "/elsewhere")
    assert cpu_device().lock_path.parent == Path("/tmp/ablate-locks")


def test_two_caches_take_turns_on_one_device(tmp_path: Path) -> None:
    both = [
        drive(tmp_path, "--study", name, "--blocks", "1", FAKE_SLEEP_S="0.15", ABLATE_CACHE=str(tmp_path / name))
        for name in ("one", "two")
    ]
    assert [process.wait(30) for process in both] == [0, 0]
    assert len(read_log(tmp_path, "end")) == 6
    assert_one_at_a_time(tmp_path)
