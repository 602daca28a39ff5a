"""A thing that went wrong -> one of three kinds of error: the user's, a trial's, stored data's."""


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
