"""A folder that is to be made -> its lock, so that of several processes one makes it and the others wait."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(folder: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
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
