"""Words of a text as BERT parts it, with their places."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer

from bertctl.text.words import word_places


def words(text):
    return [text[start:end] for start, end in word_places([text])[0]]


def test_by_hand():
    assert words("Obama's U.S. \u4e2d\u6587 caf\u00e9") == [
        "Obama",
        "'",
        "s",
        "U",
        ".",
        "S",
        ".",
        "\u4e2d",
        "\u6587",
        "caf\u00e9",
    ]
    assert words(" \n") == words("") == words("\u0000") == []
    assert word_places(["a  b", "\ud83d hi"]) == [[(0, 1), (3, 4)], [(2, 4)]]


def test_they_are_those_of_the_plain_python_tokenizer(real_texts, odd_texts):
    reference = BasicTokenizer(do_lower_case=False, strip_accents=False)
    for text in [*real_texts[:20], *odd_texts]:
        expected = reference.tokenize(text)
        cleaned = [unicodedata.normalize("NFC", reference._clean_text(word)) for word in words(text)]
        assert cleaned == expected, text[:80]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_places_are_in_order_and_hold_something(text):
    places = word_places([text])[0]
    borders = [border for place in places for border in place]
    assert borders == sorted(borders)
    assert all(start < end <= len(text) for start, end in places)
