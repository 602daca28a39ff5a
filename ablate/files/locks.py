"""A path -> an exclusive lock on that file: a child can inherit it, and the kernel frees it when all holders die.

A lock file is never removed, and never reached through a link that somebody else may have planted. A folder has a lock
too, so that of several processes one makes it and the others wait.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POLL_S = 0.1


class FileLock:
    """A held `flock`. It belongs to the open file: a child that inherits `descriptor` keeps it held."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def try_acquire(cls, path: Path) -> FileLock | None:
        """Take the lock, or return None when another open file holds it."""
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a child inherits to keep the lock held."""
        return (self.descriptor,)

    def describe(self, owner: Mapping[str, Any]) -> None:
        """Write who holds the lock into the file, for whoever waits."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps(dict(owner)).encode(), 0)

    def release(self) -> None:
        """Let go of this process's share; an inheriting child keeps the lock."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Tell whether somebody holds the lock on `path` (False when the file does not exist); nothing is written."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_owner(path: Path) -> dict[str, Any]:
    """What the holder wrote into the lock file; empty when it wrote nothing readable (yet)."""
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def process_exists(pid: object) -> bool:
    """Tell whether a process with this id exists (whoever owns it)."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # a lock file that all users share may name any number
        return False
    except PermissionError:
        return True
    return True


def wait_for(path: Path, on_wait: Callable[[dict[str, Any]], None], poll_s: float = POLL_S) -> FileLock:
    """Take the lock, waiting as long as it needs; `on_wait(owner)` is called at every look that finds it held."""
    while (lock := FileLock.try_acquire(path)) is None:
        on_wait(read_owner(path))
        time.sleep(poll_s)
    return lock


@contextmanager
def short_lock(path: Path) -> Iterator[None]:
    """Hold a lock for a few milliseconds of bookkeeping, waiting for others who do the same."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_shared_folder(folder: Path) -> None:
    """Make a folder in which every user of the host can make lock files and nobody can remove those of others.

    Raises:
        NotADirectoryError: something else has its name, a link included.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        return
    folder.chmod(0o1777)  # mkdir's own mode is cut by the umask


def _open(path: Path) -> int:
    """Open or make a lock file; in a folder that all users share, it is for all of them.

    A file that exists is opened without `O_CREAT`, which Linux refuses for files of others in a sticky folder
    (`fs.protected_regular`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        if path.parent.stat().st_mode & stat.S_ISVTX:
            os.fchmod(descriptor, 0o666)
        return descriptor


@contextmanager
def folder_lock(folder: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a folder; whoever had to wait for it must look again at what is in the folder.

    The lock is a file beside the folder, gone when nobody holds it. The system frees that of a process that dies.

    Args:
        folder: What is to be made; its parent is created.
        on_wait: Called before waiting for another process.
    """
    path = folder.with_name(f".{folder.name}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _take(path, on_wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path, on_wait: Callable[[], None]) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # who held it has removed the file: another process may hold a new one
