"""Problems of a data file by kind: what is wrong in many lines alike is said once, with lines and their number.

So that a thousand empty cells do not hide the one label that nobody knows.
"""

import re
from collections.abc import Callable, Sequence

from bertctl.errors import MOST_PROBLEMS_SHOWN, raise_problems

LINED = re.compile(r"(?P<file>.*?):(?P<line>\d+): (?P<what>.*)", re.DOTALL)
LINES_SHOWN = 10


def raise_by_kind(problems: Sequence[str]) -> None:
    """Raise one `BertctlError` with all problems; do nothing if there are none."""
    raise_problems(by_kind(problems))


def by_kind(problems: Sequence[str]) -> list[str]:
    """Problems, of which those that differ in nothing but the line are one; and if they are still more than are shown,
    those that differ in what was got and have the same expected, after the first of them."""
    merged = _merged(problems, lambda what: what)
    return merged if len(merged) <= MOST_PROBLEMS_SHOWN else _merged(problems, _expected)


def lines_of(places: Sequence[str], *, alike: str = "times") -> str:
    """` (3 times: lines 2, 5, 9)` of places as `file:line`; nothing for one place."""
    if len(places) < 2:
        return ""
    lines = list(dict.fromkeys(place.rpartition(":")[2] for place in places))
    more = ", ..." if len(lines) > LINES_SHOWN else ""
    where = f": lines {', '.join(lines[:LINES_SHOWN])}{more}" if len(lines) > 1 else ""
    return f" ({len(places):,} {alike}{where})"


def _expected(what: str) -> str:
    """What was expected; all of a problem that does not say it."""
    return what.rpartition(", expected ")[2] if ", expected " in what else what


def _merged(problems: Sequence[str], kind: Callable[[str], str]) -> list[str]:
    """A problem for each file and kind: the first of them, with all their lines."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for problem in problems:
        match = LINED.fullmatch(problem)
        file, line, what = match.group("file", "line", "what") if match else ("", "", problem)
        groups.setdefault((file, kind(what)), []).append((f"{file}:{line}", problem))
    return [_together(group) for group in groups.values()]


def _together(group: Sequence[tuple[str, str]]) -> str:
    """The first problem of a group, with how many there are and their lines."""
    same = len({problem.removeprefix(place) for place, problem in group}) == 1
    return group[0][1] + lines_of([place for place, _ in group], alike="times" if same else "of this kind")
