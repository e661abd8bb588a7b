"""INT, TERM and USR1 set a flag; every long loop looks at it and stops at a safe point.

Nothing is saved inside a handler: a handler can run in the middle of a write. Loops that have something to save ask
`pending()`, save, and raise `Stopped`; loops that have nothing to save call `check()`.
"""

import os
import signal
from types import FrameType

from bertctl.errors import Stopped

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_pending: int | None = None


def install() -> None:
    """Watch the signals for the rest of this process."""
    for number in WATCHED:
        signal.signal(number, _remember)


def _remember(number: int, frame: FrameType | None) -> None:
    global _pending
    if number == signal.SIGINT and _pending == signal.SIGINT:
        os._exit(128 + number)  # a second Ctrl-C ends at once; files only ever appear whole, so nothing saved is harmed
    _pending = _pending or number


def pending() -> int | None:
    """The signal that asked this process to stop, or None."""
    return _pending


def request(number: int) -> None:
    """Ask this process to stop, as if the signal had arrived (another rank told us that it did)."""
    _remember(number, None)


def clear() -> None:
    """Forget a pending signal (tests)."""
    global _pending
    _pending = None


def check(doing: str) -> None:
    """Raise `Stopped` if a signal is pending; `doing` says what was interrupted, as in `reading the corpus`."""
    if _pending is not None:
        raise Stopped(_pending, f"stopped by {signal.Signals(_pending).name} while {doing}; nothing half-written is left")
