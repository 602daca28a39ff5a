"""Stages of a trial -> JSON lines on an inherited descriptor, written only outside the timed part."""

from __future__ import annotations

import json
import os
from typing import Any


class ProgressPipe:
    """Writes progress lines to the parent; a parent that is gone is not an error."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def send(self, stage: str, **facts: Any) -> None:
        """Send `{"stage": stage, **facts}`."""
        if self._descriptor is None:
            return
        try:
            os.write(self._descriptor, (json.dumps({"stage": stage, **facts}) + "\n").encode())
        except OSError:  # the parent was killed; this trial goes on and its record is found later
            self._descriptor = None
