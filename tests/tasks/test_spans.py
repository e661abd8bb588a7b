"""Windows over contexts, the span to learn in each, and decoding: nothing of a context is left out, and every answer
that begins and ends with a piece comes back exactly."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.tasks import spans
from bertctl.tasks.questions import Answer, QuestionExample
from bertctl.tasks.task import IGNORED, Features, Limits
from bertctl.text.tokenizer import Tokenizer
from bertctl.text.train_byte_bpe import train_byte_bpe

WORDS = [f"q{n}" for n in range(30)] + [f"c{n}" for n in range(30)]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS], True, True)
LETTERS = [chr(code) for code in range(0x61, 0x7B)] + list(
    "\u0928\u092e\u0938\u0924\u4e2d\u0645\u0631\u0130\u1112\u1161"
)
BY_LETTER = Tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + letter for letter in LETTERS)], True, True
)
TEXTS = st.text(
    st.sampled_from(
        "ab c.\u00e9e\u0301\u0928\u092e\u0938\u094d\u0924\u0947\u4e2d\u0645\u064e\u200b\u0130\ud55c\U0001f600\n"
    )
)


def example(question: str, context: str, *answers: Answer, known: bool = True) -> QuestionExample:
    return QuestionExample("1", question, context, answers if known else None, "q.json: question 1")


def words(letter: str, count: int, start: int = 0) -> str:
    return " ".join(f"{letter}{n}" for n in range(start, start + count))


def shown(feature: Features) -> list[str]:
    """The words of the context in a window."""
    return [TOKENIZER.tokens[feature.input_ids[position]] for position in feature.positions]


def windows(question: int, length: int, overlap: int) -> list[str]:
    features = spans.encode([example(words("q", question), words("c", 30))], TOKENIZER, [], Limits(length, overlap))
    return [f"{shown(feature)[0]}-{shown(feature)[-1]}" for feature in features]


def test_windows_as_worked_out_by_hand() -> None:
    assert windows(5, 20, 4) == ["c0-c11", "c8-c19", "c16-c27", "c24-c29"]
    assert windows(5, 20, 0) == ["c0-c11", "c12-c23", "c24-c29"]
    assert windows(5, 40, 4) == ["c0-c29"]


def test_an_answer_is_found_behind_two_separators_and_without_its_blank() -> None:
    """RoBERTa: <s> question </s></s> context </s>, and a piece that takes in the blank before its word."""
    tokenizer = train_byte_bpe(["who is pure land"] * 3, vocab_size=290)
    context = "  Pure Land is a term."
    asked = example("who is", context, Answer("Land", 7))
    (feature,) = spans.encode([asked], tokenizer, [], Limits(64))
    separators = [place for place, token in enumerate(feature.input_ids) if token == tokenizer.sep_id]
    assert separators == [separators[0], separators[0] + 1, len(feature.input_ids) - 1]
    assert set(feature.token_type_ids) == {0}
    logits = np.zeros((len(feature.input_ids), 2))
    logits[feature.labels, [0, 1]] = 9
    best = spans.best_spans([feature], [logits], 1)[0]
    assert context[best.start : best.end] == "Land"


def test_an_overlap_is_smaller_than_the_window_that_the_question_leaves() -> None:
    for overlap in (12, 50):
        with pytest.raises(BertctlError, match=r"^q.json: question 1: got an overlap of \d+, but it must be < 12, the"):
            windows(5, 20, overlap)
    assert len(windows(5, 20, 11)) == 19
    with pytest.raises(BertctlError, match="max_length: got 4, expected at least 5"):
        windows(5, 4, 0)


def test_a_long_question_is_cut_to_half_the_room_and_counted() -> None:
    features = spans.encode([example(words("q", 25), words("c", 30))], TOKENIZER, [], Limits(20))
    ids = features[0].input_ids
    assert [TOKENIZER.tokens[i] for i in ids[:11]] == ["[CLS]", *(f"q{n}" for n in range(8)), "[SEP]", "c0"]
    assert all(len(feature.input_ids) <= 20 for feature in features)
    assert [(f.pieces, f.cut) for f in features[:2]] == [(55, 17), (0, 0)]  # counted once, in the first window
    assert features[0].token_type_ids == [0] * 10 + [1] * 10


def test_the_answer_is_learnt_where_it_lies_wholly_within_a_window() -> None:
    context = words("c", 30)
    start = context.index("c10")
    asked = example(words("q", 5), context, Answer("c10 c11", start), Answer("c0", 0))
    features = spans.encode([asked], TOKENIZER, [], Limits(20, 4))
    assert [f.labels for f in features] == [[17, 18], [9, 10], [0, 0], [0, 0]]  # 7 positions stand before the context
    inside = example("", context, Answer("0 c11 c1", start + 2))  # the pieces that it touches
    assert [f.labels for f in spans.encode([inside], TOKENIZER, [], Limits(40))] == [[12, 14]]


def test_what_has_no_answer_to_learn() -> None:
    context = words("c", 30)
    impossible = example("q0", context)
    unknown = example("q0", context, known=False)
    moved = example("q0", context, Answer("c1", 2))
    blank = example("q0", context, Answer(" ", 2))
    features = spans.encode([impossible, unknown, moved, blank], TOKENIZER, [], Limits(40))
    assert [f.labels for f in features] == [[0, 0], None, [IGNORED, IGNORED], [0, 0]]
    assert [f.example for f in features] == [0, 1, 2, 3]


def test_a_context_without_pieces_still_has_a_window() -> None:
    (feature,) = spans.encode([example("q0", " \n")], TOKENIZER, [], Limits(20))
    assert (feature.input_ids, feature.positions, feature.labels) == ([2, 5, 3, 3], [], [0, 0])
    assert spans.best_spans([feature], [np.zeros((4, 2))], 10) == []
    assert spans.null_score([np.array([[1.0, 2.0]]), np.array([[0.5, 1.0]])]) == 1.5


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 40), st.integers(0, 60), st.integers(5, 40), st.integers(0, 40))
def test_every_piece_of_the_context_is_shown(question: int, context: int, length: int, overlap: int) -> None:
    most = (length - 3) // 2
    room = length - 3 - min(question, most)
    text = " ".join(["c1"] * context)
    asked = example(" ".join(["q1"] * question), text)
    features = spans.encode([asked], TOKENIZER, [], Limits(length, overlap % room))
    places = [span for feature in features for span in feature.spans]
    assert sorted(set(places)) == [(3 * n, 3 * n + 2) for n in range(context)]
    assert all(len(f.input_ids) <= length and len(f.positions) == len(f.spans) for f in features)
    starts = [feature.spans[0] for feature in features if feature.spans]
    assert all(left < right for left, right in pairwise(starts))  # no window without a new piece
    assert sum(f.pieces for f in features) == question + context


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, st.integers(8, 40), st.data())
def test_answers_come_back_exactly_from_their_positions(
    question: str, context: str, length: int, data: st.DataObject
) -> None:
    """An answer that begins and ends with a piece is encoded to positions, and these are decoded to the same text."""
    pieces = spans.context_of(context, BY_LETTER.encode([context])[0])
    assume(pieces.spans)
    assert all(start < end for start, end in pieces.spans)
    first = data.draw(st.integers(0, len(pieces.spans) - 1))
    last = min(first + data.draw(st.integers(0, 5)), len(pieces.spans) - 1)
    start, end = pieces.spans[first][0], pieces.spans[last][1]
    asked = example(question, context, Answer(context[start:end], start))
    features = spans.encode([asked], BY_LETTER, [], Limits(length))
    held = [feature for feature in features if feature.labels != [0, 0]]
    assume(held)  # a short window may hold no such answer wholly
    for feature in held:
        logits = np.zeros((len(feature.input_ids), 2))
        logits[feature.labels[0], 0] = logits[feature.labels[1], 1] = 9.0
        best = spans.best_spans([feature], [logits], 10)[0]
        assert (best.start, best.end, best.score) == (start, end, 18.0)


def test_leading_blanks_stay_where_they_are() -> None:
    text = "  Pure Land is a term."
    (feature,) = spans.encode([example("", text, Answer("Pure Land", 2))], BY_LETTER, [], Limits(60))
    first, last = (feature.positions.index(label) for label in feature.labels)
    assert (feature.spans[first][0], feature.spans[last][1]) == (2, 11)


def test_marks_end_with_their_letter_even_where_the_vocabulary_takes_them_away() -> None:
    for text in ("cafe\u0301 x", "\u0928\u092e\u0938\u094d\u0924\u0947 x", "\u0645\u0631\u064e x"):
        context = spans.context_of(text, BY_LETTER.encode([text])[0])
        assert text[context.spans[-2][1]] == " "


def test_spans_by_brute_force() -> None:
    """All pairs of positions, by hand: start not after end, at most 30 pieces, context only, each span once."""
    generator = np.random.default_rng(0)
    text = "\ud55c" + " ab" * 20 + " c"  # the first character is three pieces with one place
    features = spans.encode([example("a b", text)], BY_LETTER, [], Limits(40, 15))
    assert len(features) > 1
    logits = [generator.normal(size=(len(feature.input_ids), 2)) for feature in features]
    wanted: dict[tuple[int, int], float] = {}
    for feature, values in zip(features, logits, strict=True):
        for i, first in enumerate(feature.positions):
            for j, last in enumerate(feature.positions):
                if i <= j < i + 30:
                    place = (feature.spans[i][0], feature.spans[j][1])
                    wanted[place] = max(wanted.get(place, -99.0), values[first, 0] + values[last, 1])
    best = sorted(((score, *place) for place, score in wanted.items()), reverse=True)[:10]
    found = spans.best_spans(features, logits, 10)
    assert [(span.start, span.end) for span in found] == [(start, end) for _, start, end in best]
    assert [span.score for span in found] == pytest.approx([score for score, _, _ in best])
