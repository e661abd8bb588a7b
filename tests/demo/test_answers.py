"""Questions about what functions return: the answer stands where it is said to, and nothing leaks between splits."""

import pytest

from bertctl.demo.answers import asked_questions, entry_of, question_about
from bertctl.demo.labels import Sizes, split_of

SIZES = Sizes(train=24, dev=8, test=16)


@pytest.mark.parametrize(
    ("docstring", "answer"),
    [
        ("Return the name of the thing.\n\nMore text.", "the name of the thing"),
        ("Returns a copy: shallow, if `deep` is not given.", "a copy"),
        ("Return True if x is 1.5 or more; else False.", None),  # the dot of a number is not followed by a blank
        ("Return it.", None),
        ("Compute a sum.\n\nReturns the sum of both.", None),
        ("Returned values are kept in a list.", None),
        ("Return " + "very " * 20 + "much.", None),
    ],
)
def test_the_answer_is_what_a_docstring_says_first(docstring: str, answer: str | None) -> None:
    found = entry_of(("Box.draw", docstring))
    assert found is None if answer is None else (found[0], found[2]) == ("draw", answer)


def test_a_question_has_its_answer_behind_the_right_name() -> None:
    group = [("f", "Return the sum.", "the sum"), ("g", "Return the sum. Twice.", "the sum")]
    asked = question_about(group, 1, "m")
    assert asked.question == "What does g return?"
    assert asked.context == "f: Return the sum.\ng: Return the sum. Twice."
    assert asked.answer == ("m.g", 29, "the sum")
    assert asked.context[29:36] == "the sum"


def test_splits_share_no_module_and_every_answer_fits() -> None:
    found = asked_questions(SIZES, 0)
    assert all(0 < len(found[split]) <= size for split, size in SIZES._asdict().items())
    contexts = [item.context for items in found.values() for item in items]
    assert len(set(contexts)) == len(contexts)
    places = []
    for split, items in found.items():
        for item in items:
            _, start, text = item.answer
            assert item.context[start : start + len(text)] == text
            names = [line.split(":")[0] for line in item.context.split("\n")]
            assert split_of(item.where.removesuffix(f".{item.where.rpartition('.')[2]}"), 0) == split
            places.append(names.index(item.where.rpartition(".")[2]))
    assert len(set(places)) > 1  # the right function is not always the first
