"""Ids from kept words are those of the library for whole texts."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.text import kept_words
from bertctl.text.algorithms import WordPiece
from bertctl.text.kept_words import KeptWords
from bertctl.text.tokenizer import Tokenizer

LETTERS = "abcdeo\u00e9\u03c3\u03c2\u4e2d!'\u00a0"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, "##b", "##c", "##\u03c3", "the"]
ODD = "\t\n\u00a0\u3000\u2028\x00\x1c\u0301\u200b\ufffd\U0001f600"
HARD = st.text(alphabet=f"{LETTERS}AB\u00c9\u03a3  {ODD}", max_size=12)
TOKENIZERS = [
    Tokenizer(PIECES, lowercase=lower, strip_accents=strip, algorithm=WordPiece(clean_text=clean, longest_word=4))
    for lower, strip, clean in [(True, True, True), (False, False, True), (True, False, False)]
]


def by_library(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer._library.encode_batch(texts, add_special_tokens=False)]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(texts=st.lists(HARD, max_size=6))
@settings(max_examples=300, deadline=None)
def test_texts_of_hard_characters(tokenizer, texts):
    assert [ids.tolist() for ids in tokenizer.encode_ids(texts)] == by_library(tokenizer, texts)


@pytest.mark.parametrize("most", [300, kept_words.MOST_KEPT])
def test_real_texts_with_and_without_room(minilm, real_texts, monkeypatch, most):
    texts = [line for text in real_texts for line in (text, text.replace("\n", " "), text[::-1])]
    monkeypatch.setattr(kept_words, "MOST_KEPT", most)
    words = KeptWords(minilm._library)
    found = [ids.tolist() for start in range(0, len(texts), 7) for ids in words.encode(texts[start : start + 7])]
    assert found == by_library(minilm, texts)
    assert 300 <= len(words.kept) <= most
    assert max(map(len, words.kept)) <= kept_words.LONGEST_KEPT


def test_nothing_and_no_texts(minilm):
    assert minilm.encode_ids([]) == []
    (ids,) = minilm.encode_ids([""])
    assert ids.dtype == np.int32
    assert not len(ids)
    assert [len(ids) for ids in minilm.encode_ids(["", " ", "a", ""])] == [0, 0, 1, 0]


def test_an_added_token_may_hold_a_blank():
    added = {"content": "a b", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer = Tokenizer(
        [*PIECES, "a b"],
        lowercase=True,
        strip_accents=True,
        added=({"id": len(PIECES), **added, "special": False},),
    )
    assert tokenizer.encode_ids(["o a b"])[0].tolist() == [PIECES.index("o"), len(PIECES)]


def test_threads_may_call_at_once(minilm, real_texts, monkeypatch):
    monkeypatch.setattr(kept_words, "LONGEST_KEPT", 3)
    monkeypatch.setattr(kept_words, "MOST_KEPT", 300)
    words = KeptWords(minilm._library)
    texts = [text[:400] for text in real_texts[:40]]
    expected = by_library(minilm, texts)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: words.encode(texts), range(40)):
                assert [ids.tolist() for ids in found] == expected
    finally:
        sys.setswitchinterval(before)
