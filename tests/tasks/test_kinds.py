"""Many problems of one kind are one, with their lines and their number, and no problem is lost on the way."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.tasks.kinds import by_kind, lines_of

EMPTY = "got an empty cell in the column 'label', expected a label"


def test_the_same_in_many_lines_is_said_once() -> None:
    problems = [f"d.csv:{line}: {EMPTY}" for line in range(2, 40)]
    assert by_kind([*problems, "d.csv:9: got 3 columns, expected 2", "e.csv:2: " + EMPTY]) == [
        f"d.csv:2: {EMPTY} (38 times: lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...)",
        "d.csv:9: got 3 columns, expected 2",
        f"e.csv:2: {EMPTY}",
    ]


def test_what_differs_in_the_value_is_told_one_by_one_while_there_is_room() -> None:
    def numbers(count: int) -> list[str]:
        return [f"d.csv:{n}: got 'x{n}' in the column 'score', expected a finite number" for n in range(count)]

    assert by_kind(numbers(20)) == numbers(20)
    assert by_kind([*numbers(21), "d.csv:5: got the label 'z', which train does not have"]) == [
        numbers(1)[0] + " (21 of this kind: lines 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...)",
        "d.csv:5: got the label 'z', which train does not have",
    ]


def test_places_without_lines_stay() -> None:
    assert by_kind(["d: no such file", "d: no such file", "gold.json: question a: got null, expected text"]) == [
        "d: no such file (2 times)",
        "gold.json: question a: got null, expected text",
    ]
    assert lines_of(["f:3"]) == ""
    assert lines_of(["f:3", "f:3", "f:4"]) == " (3 times: lines 3, 4)"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a:", "b:"]), st.integers(1, 99), st.text(max_size=8)), max_size=60))
def test_counts_add_up(rows: list[tuple[str, int, str]]) -> None:
    problems = [f"{file}{line}: got {text!r}, expected x" for file, line, text in rows]
    counts = [re.search(r"\(([\d,]+) (times|of this kind)", line) for line in by_kind(problems)]
    assert sum(int(match[1]) if match else 1 for match in counts) == len(problems)
