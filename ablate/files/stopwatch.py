"""The wall clock, read once -> dates of a begin and an end that no jump of that clock can put in disorder."""

import time
from datetime import UTC, datetime, timedelta


class Stopwatch:
    """Begins now; its end is the begin plus the seconds that really went by."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC)
        self._began_s = time.monotonic()
        self.started_at = self._began.isoformat(timespec="milliseconds")

    def ended_at(self) -> str:
        """ISO date of this moment."""
        passed = timedelta(seconds=time.monotonic() - self._began_s)
        return (self._began + passed).isoformat(timespec="milliseconds")
