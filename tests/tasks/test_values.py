"""A label is a name, whatever type it was written in, and a missing one is a problem."""

import math

import pytest

from bertctl.tasks.values import LabelReader, clean_text, sorted_labels, text_of


@pytest.mark.parametrize(
    ("value", "name"),
    [("x", "x"), (1, "1"), (-1, "-1"), (True, "true"), (False, "false"), (1.5, "1.5"), ("nan", "nan")],
)
def test_names_of_labels(value: object, name: str) -> None:
    problems: list[str] = []
    assert LabelReader([], problems).name(value, "f:1", "label") == name
    assert problems == []


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (None, "null"),
        ("", "an empty cell"),
        (math.nan, "NaN"),
        (math.inf, "a number"),
        (["a"], "a list"),
        ({"a": 1}, "an object"),
    ],
)
def test_what_is_no_label(value: object, got: str) -> None:
    problems: list[str] = []
    LabelReader([], problems).name(value, "f:3", "label")
    assert problems[0].startswith(f"f:3: got {got} in the column 'label'")


def test_mixed_types_are_named_with_the_place_of_the_first() -> None:
    problems: list[str] = []
    reader = LabelReader([], problems)
    for line, value in enumerate([1, 2, "1", True], 1):
        reader.name(value, f"f:{line}", "label")
    assert problems[0] == "f:3: got text in the column 'label', expected an integer as in f:1: labels of mixed types"
    assert problems[1].startswith("f:4: got true or false")


def test_class_names_stand_for_numbers() -> None:
    reader = LabelReader(["neg", "pos"], [])
    assert [reader.name(value, "f:1", "label") for value in (0, 1)] == ["neg", "pos"]
    assert reader.name(7, "f:1", "label") == "7"
    assert LabelReader(["neg", "pos"], []).name("1", "f:1", "label") == "pos"


def test_numbers_sort_as_numbers_and_names_as_text() -> None:
    assert sorted_labels({"10", "9", "-1"}) == ["-1", "9", "10"]
    assert sorted_labels({"10", "9", "x"}) == ["10", "9", "x"]


def test_text_is_text() -> None:
    problems: list[str] = []
    assert text_of("", "f:1", "text", problems) == ""
    assert problems == []
    for value in (None, 1, ["a"], {"a": "b"}):
        text_of(value, "f:1", "text", problems)
    assert [problem.split(" in ")[0] for problem in problems] == [
        "f:1: got null",
        "f:1: got a number",
        "f:1: got a list",
        "f:1: got an object",
    ]


def test_half_a_surrogate_pair_keeps_its_place() -> None:
    assert clean_text("a\ud83db") == "a\ufffdb"
    assert clean_text("a\U0001f600b") == "a\U0001f600b"
