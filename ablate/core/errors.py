"""A thing that went wrong -> one of three kinds of error: the user's, a trial's, stored data's."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMES = 10


class AblateError(Exception):
    """Base of every error that ablate raises on purpose; its text is one clear sentence for a person."""


class UserError(AblateError):
    """The user asked for something impossible: say what is wrong and what to do; exit code 1."""


class DiskError(UserError):
    """A disk is full, closed or broken: say which file and what to do; nothing that was finished is lost."""


class LostLeaseError(UserError):
    """A worker was cut off from the ledger for so long that others take its trial over; nothing that ended is lost."""


class TrialError(AblateError):
    """A trial cannot go on: recorded with its reason, the study continues."""


class StoredDataError(AblateError):
    """A file that ablate wrote earlier cannot be read: names the file and version; nothing is overwritten."""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return `; did you mean 'near'?` when a known name is near, else the known names if few, ready to append."""
    names = list(known)
    plain = {_plain(name): name for name in names}
    near = get_close_matches(_plain(str(word)[:80]), plain, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{plain[near[0]]}'?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= MOST_NAMES else ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
