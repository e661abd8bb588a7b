"""What people see while work goes on: notes and progress, all on stderr; stdout belongs to results."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

PLAIN_INTERVAL_SECONDS = 10.0
DRAW_INTERVAL_SECONDS = 0.1
EMPTY_LINE = "\r\x1b[2K"
_line_is_open = False  # a progress line on a terminal, which the next text replaces


def clean(text: str) -> str:
    """`text` with control characters escaped, so that no terminal code from data reaches a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def note(text: str) -> None:
    """One line for the person who watches."""
    _tell(clean(text), end="\n")


def _tell(text: str, end: str) -> None:
    """To whoever watches; that nobody does any more (`2>&1 | head`), or that the disk of a log is full, is no reason to
    end a run. Of several ranks the first one speaks for all; how a rank fails is an error, which is told elsewhere."""
    global _line_is_open
    if os.environ.get("RANK", "0") != "0":
        return
    start, _line_is_open = EMPTY_LINE if _line_is_open else "", end == ""
    with contextlib.suppress(OSError):
        print(start + text, file=sys.stderr, end=end, flush=True)


def warn(text: str) -> None:
    """One line that starts with `warning:`."""
    note(f"warning: {text}")


def print_json(value: Any) -> None:
    """A result on stdout: strict JSON, so NaN and infinity are errors here and not surprises for the reader."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2), flush=True)


def throughput(count: float, seconds: float) -> float:
    """Items per second; 0 for a time that is not positive. Every rate that bertctl prints comes from here."""
    return count / seconds if seconds > 0 else 0.0


def duration(seconds: float) -> str:
    """`75` -> `1m15s`."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{whole % 60:02d}s" if minutes else f"{whole}s"


def three_digits(rate: float) -> str:
    """`165113.3` -> `165,113`, `7.25` -> `7.2`, `0.0468` -> `0.047`: what slow work does is no `0.0`."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 or rate == 0 else f"{rate:.2g}"


class Progress:
    """A line with count, rate and time left: redrawn on a terminal, printed every 10 seconds elsewhere.

    Args: `label` what is done, `unit` what is counted, `total` the count at the end if known, `start` the count that
    was there before this process (a resumed run has not done the earlier part in this time).
    """

    def __init__(
        self,
        label: str,
        unit: str,
        total: int | None = None,
        *,
        start: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label, self.unit, self.total, self.start, self.clock = label, unit, total, start, clock
        self.count = start
        self.extra = ""
        self.started = clock()
        self.terminal = sys.stderr.isatty()
        self.next_draw = self.started + (0.0 if self.terminal else PLAIN_INTERVAL_SECONDS)
        self.told: tuple[int, str] | None = None

    def __enter__(self) -> Self:
        return self

    def update(self, count: int, extra: str = "") -> None:
        """Tell the count reached so far, and a few words to show with it (a loss, say)."""
        self.count, self.extra = count, extra
        now = self.clock()
        if now >= self.next_draw:
            self.next_draw = now + (DRAW_INTERVAL_SECONDS if self.terminal else PLAIN_INTERVAL_SECONDS)
            self.told = (count, extra)
            self._show(self.line(now), end="" if self.terminal else "\n")

    def line(self, now: float) -> str:
        """The text of the line at time `now`."""
        rate = throughput(self.count - self.start, now - self.started)
        share = f"/{self.total:,}" if self.total else ""
        left = f", {duration((self.total - self.count) / rate)} left" if self.total and rate > 0 else ""
        speed = f"{three_digits(rate)} {self.unit}/s{left}"
        return f"{self.label}  {self.count:,}{share} {self.unit}  {speed}  {self.extra}".rstrip()

    def _show(self, text: str, end: str) -> None:
        _tell(clean(text), end)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.count > self.start and (self.terminal or self.told != (self.count, self.extra)):
            self._show(self.line(self.clock()), end="\n")
