"""Sentences: nothing lost, line ends are borders, long ones are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertctl.text import sentences
from bertctl.text.sentences import split_sentences


@given(
    st.text("aB. ?!\n\t\u2028\u00a0\u0085\u3000é中。", max_size=80), st.sampled_from(["sentencex", "newline", "none"])
)
def test_nothing_but_white_space_is_lost(text, splitter):
    parts = split_sentences(text, splitter)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part == part.strip() != "" for part in parts)


@pytest.mark.parametrize(
    ("splitter", "expected"),
    [
        ("sentencex", ["Dr. Smith came.", "He left at 3.14 p.m.", "a new line"]),
        ("newline", ["Dr. Smith came. He left at 3.14 p.m.", "a new line"]),
        ("none", ["Dr. Smith came. He left at 3.14 p.m.\na new line"]),
    ],
)
def test_what_ends_a_sentence(splitter, expected):
    assert split_sentences("Dr. Smith came. He left at 3.14 p.m.\na new line\n", splitter) == expected


@pytest.mark.parametrize("blank", ["\u00a0", "\u0085", "\u2028", "\u3000"])
def test_a_wide_blank_before_a_full_stop_is_no_panic(blank):
    text = f"Il arrive\u00a0! B{blank}. Then he left{blank}. So"
    assert "".join(split_sentences(text, "sentencex")).replace(" ", "") == text.replace(" ", "")
    assert len(split_sentences(text, "sentencex")) > 1


def test_other_line_separators_end_nothing():
    assert len(split_sentences("one\u2028two\u2029three\u0085four\rfive", "newline")) == 1


@pytest.mark.parametrize("splitter", ["sentencex", "newline", "none"])
def test_a_sentence_without_end_is_cut_at_a_blank(monkeypatch, splitter):
    monkeypatch.setattr(sentences, "LONGEST_SENTENCE", 40)
    text = " ".join(f"word{i}" for i in range(50))
    parts = split_sentences(text, splitter)
    assert len(parts) > 5
    assert all(len(part) <= 40 for part in parts)
    assert " ".join(parts) == text
    assert "".join(split_sentences("x" * 100, splitter)) == "x" * 100
