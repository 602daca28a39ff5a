"""Signals that ask the runner to stop -> KeyboardInterrupt, held back where it would leave something half done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that a closed terminal leaves a study that can be continued."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextmanager
def stop_signals_wait() -> Iterator[None]:
    """Hold a stop signal back while something short happens that must not be cut in two; it is raised afterwards."""
    came: list[int] = []
    with _handled_by(lambda number, frame: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle stop signals for a while, those that the caller wants ignored (`nohup`) left out."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: known for number in STOP_SIGNALS
              if (known := signal.getsignal(number)) not in (signal.SIG_IGN, None)}  # fmt: skip
    try:
        for number in before:
            signal.signal(number, handler)
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)
