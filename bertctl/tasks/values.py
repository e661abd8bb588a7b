"""What a cell may hold: a text is text, and a label is a name, whatever type it was written in.

Numbers are names too ("1", "2", "3" are three classes). Missing labels and labels of mixed types are problems, since
1 and "1" in one file are more often a mistake than one class.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bertctl.tasks.tables import json_kind

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LARGEST_NUMBER = 3.4e38  # numbers are learnt in float32
LONGEST_SHOWN = 40  # characters
IDS = ("id", "guid", "idx", "index")
"""Usual names of the column that says which record one is."""
LABEL_KINDS = {str: "text", bool: "true or false", int: "an integer", float: "a fraction"}


def clean_text(value: str) -> str:
    """Half a UTF-16 pair, which JSON can hold, is no character and cannot be written: U+FFFD, so that places stay."""
    return LONE_SURROGATE.sub("\ufffd", value)


def text_of(value: Any, place: str, column: str, problems: list[str]) -> str:
    """A text cell; anything but text is a problem."""
    if isinstance(value, str):
        return clean_text(value)
    problems.append(f"{place}: got {json_kind(value)} in the column {column!r}, expected text")
    return ""


def id_in(row: Mapping[str, Any], column: str | None) -> str | None:
    """The id of a record; None if it has none, or anything but text or a whole number."""
    value = None if column is None else row.get(column)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        return None
    return clean_text(str(value))


class LabelReader:
    """Turns label cells of one data set into names, and remembers where each type of value came first."""

    def __init__(self, class_names: Sequence[str], problems: list[str]) -> None:
        self.class_names, self.problems = class_names, problems
        self.first_kind: tuple[str, str] | None = None  # (kind, place)

    def name(self, value: Any, place: str, column: str) -> str:
        """The name of a label; "" after a problem."""
        kind = LABEL_KINDS.get(type(value))
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            got = "an empty cell" if value == "" else "null" if value is None else "NaN"
            self.problems.append(f"{place}: got {got} in the column {column!r}, expected a label")
        elif kind is None or (isinstance(value, float) and math.isinf(value)):
            self.problems.append(f"{place}: got {json_kind(value)} in the column {column!r}, expected one label")
        elif self._is_mixed(kind, place):
            self.problems.append(self._mixed(kind, place, column))
        else:
            return self._spelled(value)
        return ""

    def _is_mixed(self, kind: str, place: str) -> bool:
        self.first_kind = self.first_kind or (kind, place)
        return self.first_kind[0] != kind

    def _mixed(self, kind: str, place: str, column: str) -> str:
        first = self.first_kind or ("", "")
        return (
            f"{place}: got {kind} in the column {column!r}, expected {first[0]} as in {first[1]}: labels of mixed types"
        )

    def _spelled(self, value: str | bool | int | float) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"  # as JSON writes it
        if isinstance(value, int) and 0 <= value < len(self.class_names):
            return self.class_names[value]
        if isinstance(value, str) and value.isascii() and value.isdecimal() and int(value) < len(self.class_names):
            return self.class_names[int(value)]
        return clean_text(str(value))


def is_number(text: str) -> bool:
    """Whether a text is a decimal number: no NaN, no infinity, no `1_000`, all of which `float` takes."""
    return NUMBER.fullmatch(text.strip()) is not None and abs(float(text)) <= LARGEST_NUMBER


def number_of(value: Any, place: str, column: str, problems: list[str]) -> float:
    """A cell that holds a number, or its digits; anything else is a problem, and so is what float32 cannot hold."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER:
        return float(value)
    if isinstance(value, str) and is_number(value):
        return float(value)
    got = json_kind(value) if value is None or isinstance(value, (bool, list, dict)) else shown(value)
    problems.append(f"{place}: got {got} in the column {column!r}, expected a finite number")
    return 0.0


def shown(value: Any) -> str:
    """A cell as a message shows it, which may hold a whole text."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def most_frequent(names: Iterable[str | None]) -> str:
    """The name that occurs most often, of equals the first in the alphabet; None does not count."""
    counts = Counter(name for name in names if name is not None)
    return min(counts, key=lambda name: (-counts[name], name))


def sorted_labels(names: set[str]) -> list[str]:
    """Labels in the order of their numbers: as numbers if all are integers, else as text."""
    if all(re.fullmatch(r"-?[0-9]+", name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)
