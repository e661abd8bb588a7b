"""INT, TERM and USR1 set a flag; every long loop looks at it and stops at a safe point.

Nothing is saved inside a handler: a handler can run in the middle of a write. Loops that have something to save ask
`pending()`, save, and raise `Stopped`; loops that have nothing to save call `check()`.
"""

import contextlib
import io
import os
import select
import signal
import sys
from types import FrameType
from typing import Any, BinaryIO, cast

from bertctl.errors import BertctlError, Stopped

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
POLL_SECONDS = 0.2
_pending: int | None = None


def install() -> None:
    """Watch the signals for the rest of this process."""
    for number in WATCHED:
        signal.signal(number, _remember)


def _remember(number: int, frame: FrameType | None) -> None:
    global _pending
    if number == signal.SIGINT and _pending == signal.SIGINT:
        os._exit(128 + number)  # a second Ctrl-C ends at once; files only ever appear whole, so nothing saved is harmed
    if number == signal.SIGINT and frame is not None and os.environ.get("RANK", "0") == "0":
        with contextlib.suppress(OSError):  # a handler may not print; a step of a large model can take minutes
            os.write(2, b"\nbertctl: stopping at the next safe point; Ctrl-C again ends at once\n")
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
        raise Stopped(
            _pending, f"stopped by {signal.Signals(_pending).name} while {doing}; nothing half-written is left"
        )


def standard_input() -> BinaryIO:
    """The bytes of standard input, for reading that a signal may end: Python would go on waiting for a silent pipe.

    Errors: BertctlError if it is closed; `Stopped` while reading.
    """
    if sys.stdin is None:
        raise BertctlError("<stdin>: is closed, expected text")
    try:
        return cast(BinaryIO, io.BufferedReader(_Polled(sys.stdin.fileno())))
    except (AttributeError, io.UnsupportedOperation):  # not a file of the system: a test has put something else there
        return sys.stdin.buffer


class _Polled(io.RawIOBase):
    """A descriptor that is read only when there is something to read, with a look at the signals in between."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        check("reading standard input")
        while not select.select([self.descriptor], [], [], POLL_SECONDS)[0]:
            check("reading standard input")
        data = os.read(self.descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)
