"""Answers that are not where the data say: each way in which offsets go wrong is made here, and found out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.tasks.offsets import cause, fits, misfit
from bertctl.tasks.questions import Answer, QuestionExample

CONTEXT = "\u00dc\U0001f600 Pure Land is a term.\nA second line about it."


def example(context: str, *answers: Answer) -> QuestionExample:
    return QuestionExample("1", "What?", context, answers, "q.json: question 1")


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def utf8(text: str) -> int:
    return len(text.encode())


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (CONTEXT.index("Pure"), None),
        (utf16(CONTEXT[:3]), "it stands at 3: the offset counts UTF-16 units, not code points"),
        (utf8(CONTEXT[:3]), "it stands at 3: the offset counts UTF-8 bytes, not code points"),
        (0, "it stands at 3, off by 3"),
        (9, "it stands at 3, off by 6; were blanks before it stripped?"),
        (-4, "it stands at 3, off by 7"),
        (10**30, "it stands at 3, off by"),
    ],
)
def test_the_cause_of_a_misfit(start: int, said: str | None) -> None:
    found = misfit(example(CONTEXT, Answer("Pure Land", start)))
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(f"got the answer 'Pure Land' at {start}, but {said}")


def test_the_context_of_squad_issues_whose_blanks_were_stripped() -> None:
    context = "  Pure Land is a term."
    assert misfit(example(context, Answer("Pure Land", 2))) is None
    assert "it stands at 2: the offset counts from the first character that is no blank" in str(
        misfit(example(context, Answer("Pure Land", 0)))
    )
    assert "off by 1" in str(misfit(example(context, Answer("Pure Land", 1))))
    assert "were blanks before it stripped?" in str(misfit(example(context.strip(), Answer("Pure Land", 2))))


def test_line_ends_that_lost_their_carriage_return() -> None:
    context = "One.\nTwo.\nThree."
    assert cause(Answer("Three", 12), context) == "it stands at 10: the offset counts two places for a line end"
    assert "two places for a line end" not in cause(Answer("Three", 11), context)


def test_answers_that_stand_nowhere_and_the_nearest_of_several_places() -> None:
    assert cause(Answer("pure  land", 3), CONTEXT) == "it stands in the context with other blanks or capitals only"
    assert cause(Answer("Mars", 3), CONTEXT) == "it does not stand in the context"
    assert cause(Answer("a", 7), "a a     a") == "it stands at 8, off by 1"


def test_one_misfit_among_several_answers_is_found_and_a_long_one_is_shortened() -> None:
    assert misfit(example(CONTEXT, Answer("Pure", 3), Answer("Land", 0))) is not None
    assert misfit(example(CONTEXT)) is None
    assert "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'" in str(misfit(example(CONTEXT, Answer("x" * 90, 0))))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=8), st.text(max_size=10), st.integers(-3, 50))
def test_any_text_at_any_offset(before: str, answer: str, after: str, start: int) -> None:
    context = before + answer + after
    right = Answer(answer, len(before))
    assert fits(right, context)
    wrong = Answer(answer, start)
    assert fits(wrong, context) == (context[max(start, 0) : start + len(answer)] == answer and start >= 0)
    if not fits(wrong, context):
        assert "it stands at" in cause(wrong, context)
    for count in (utf16, utf8):
        moved = Answer(answer, count(before))
        if not fits(moved, context):
            assert "it stands at" in cause(moved, context)
