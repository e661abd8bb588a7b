"""Errors that people are meant to read, and the exit code of each kind.

Only these are caught at the top: anything else is a bug in bertctl and leaves with exit code 1 and a traceback.
"""

import json
from collections.abc import Sequence
from typing import ClassVar

MOST_PROBLEMS_SHOWN = 20


class BertctlError(Exception):
    """Bad usage, recipe, data, tokenizer or checkpoint; nothing was written.

    `problems` are whole sentences that begin with the place (`file:line:column: `) where there is one; `hint` is the
    next command or change to try.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, *problems: str, hint: str | None = None) -> None:
        self.problems = problems
        self.hint = hint
        super().__init__("\n".join(problems))

    def lines(self) -> list[str]:
        """The message as it is printed: one `error:` line a problem, at most 20 of them, then the hint."""
        shown = [f"error: {problem}" for problem in self.problems[:MOST_PROBLEMS_SHOWN]]
        more = len(self.problems) - MOST_PROBLEMS_SHOWN
        if more > 0:
            shown.append(f"error: ... and {more} more problems of the same input")
        return [*shown, f"hint: {self.hint}"] if self.hint else shown


class EnvironmentFault(BertctlError):
    """No space, no permission, read-only, or a folder that a live run is using."""

    exit_code = 3


class NonFinite(BertctlError):
    """Training met a loss or gradient that is not finite; the last good checkpoint is kept."""

    exit_code = 4


class WorkerLost(BertctlError):
    """A distributed worker was lost, or ranks disagreed."""

    exit_code = 5


class Stopped(BertctlError):
    """A signal asked the run to stop, and it did so at a safe point."""

    def __init__(self, signal_number: int, what: str) -> None:
        super().__init__(what)
        self.signal_number = signal_number

    @property
    def exit_status(self) -> int:
        """128 + signal, as shells count: INT 130, USR1 138, TERM 143."""
        return 128 + self.signal_number


def raise_problems(problems: Sequence[str], *, hint: str | None = None) -> None:
    """Raise one `BertctlError` with all `problems`; do nothing if there are none."""
    if problems:
        raise BertctlError(*problems, hint=hint)


def json_fault(error: Exception) -> str:
    """What is wrong with one line of JSON, whose number the message has already."""
    return f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
