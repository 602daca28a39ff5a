"""Files that appear whole or not at all; errors of a full or broken disk -> one sentence that says what to do."""

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ablate.core.errors import DiskError

ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of your quota",
    errno.EACCES: "make the folder writable or choose another one",
    errno.EPERM: "make the folder writable or choose another one",
    errno.EROFS: "choose a folder on a writable file system",
    errno.ENOTDIR: "choose another folder",
    errno.EIO: "check the disk",
}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@contextmanager
def explain_disk_errors(place: Path | None = None, choose: str = "") -> Iterator[None]:
    """Turn a full disk or an unwritable folder into one sentence.

    Args:
        place: Folder to name when the system does not name the file.
        choose: Option that chooses another folder, e.g. ` with --runs`.

    Raises:
        DiskError: instead of the `OSError`.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        found = error if isinstance(error, OSError) else find_disk_error(error)  # torch wraps what its writer met
        advice = ADVICE.get(found.errno or 0) if found is not None else None
        if found is None or advice is None:
            raise
        where = found.filename or place or "a file"
        option = choose if "choose" in advice else ""
        verb = "read or write" if found.errno in (errno.EACCES, errno.EPERM, errno.EIO) else "write"
        raise DiskError(
            f"cannot {verb} {where}: {os.strerror(found.errno or 0)}; {advice}{option} and run again, "
            "every finished trial is kept"
        ) from error


def find_disk_error(error: BaseException) -> OSError | None:
    """The full or broken disk behind an exception, however often a library has wrapped it; None when there is none.

    A file that may not be read or written is somebody's mistake, not the disk's, and does not count.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in FULL:
            return seen
        seen = seen.__cause__ or seen.__context__
    for number in (errno.ENOSPC, errno.EDQUOT):  # compilers that were started and C++ libraries leave only the words
        if os.strerror(number) in str(error):
            return OSError(number, os.strerror(number))
    return None


@contextmanager
def written_durably(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write (and read back) that appears under its name whole or not at all, also after a loss of power.

    Args:
        path: Its name; what was there stays until the new content is on the disk. The folder is created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with partial.open("x+b") as stream:  # not `tempfile`, whose files are for their owner only, whatever the umask
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def file_digest(path: Path) -> str:
    """BLAKE2b of a file, 32 hex digits."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()
