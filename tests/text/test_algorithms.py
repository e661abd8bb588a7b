"""Places and word starts with every kind of piece: on any text, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from tokenizers.decoders import ByteLevel

from bertctl.text.algorithms import BYTES, CHINESE, ByteBpe, Unigram, opens
from bertctl.text.special import BERT_NAMES, ROBERTA_NAMES
from bertctl.text.tokenizer import Tokenizer

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(
    "ab\u00e9\u0301\u200b\t \u3000\u00a0\n\u0130\u00df\ufb01\u4e2d\u5b57\ud55c.#\u2581\u0120\U0001f600\u1100\u1161",
    max_size=30,
)


def shown(tokenizer, text):
    """Pieces, with `|` in front of those that begin a word."""
    pieces = tokenizer.encode([text])[0]
    names = [tokenizer.tokens[i] for i in pieces.ids]
    return [("|" if starts else "") + name for name, starts in zip(names, pieces.word_starts, strict=True)]


def test_the_signs_of_bytes_are_those_of_the_library():
    assert set(BYTES) == set(pre_tokenizers.ByteLevel.alphabet())
    for text in ("a b", "\u00e9\n", "\U0001f600\u4e2d"):
        signs = "".join(next(s for s, b in BYTES.items() if b == byte) for byte in text.encode())
        assert ByteLevel().decode([signs]) == text


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_any_text_has_places_in_order_and_words(family, texts):
    tokenizer = family.ours
    ids = tokenizer.encode_ids(texts)
    for text, alone, pieces in zip(texts, ids, tokenizer.encode(texts), strict=True):
        assert pieces.ids.tolist() == alone.tolist()
        assert len(pieces.ids) == len(pieces.starts) == len(pieces.ends) == len(pieces.word_starts)
        assert (pieces.starts >= 0).all()
        assert (pieces.starts <= pieces.ends).all()
        assert (pieces.ends <= len(text)).all()
        assert (np.diff(pieces.starts) >= 0).all()
        assert np.array_equal(pieces.word_starts, tokenizer.word_starts(pieces.ids))
        assert pieces.word_starts[:1].all()
        assert not set(pieces.ids.tolist()) & (tokenizer.special_ids - {tokenizer.unk_id})


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_bytes_lose_nothing_and_stand_on_their_characters(byte_bpe, text):
    pieces = byte_bpe.encode([text])[0]
    data = bytes(BYTES[sign] for i in pieces.ids for sign in byte_bpe.tokens[i])
    assert data == text.encode()
    owner = [place for place, character in enumerate(text) for _ in character.encode()]
    before = 0
    for token, start, end in zip(pieces.ids.tolist(), pieces.starts.tolist(), pieces.ends.tolist(), strict=True):
        after = before + len(byte_bpe.tokens[token])
        touched = text[owner[before] : owner[after - 1] + 1]
        assert text[start:end] == (touched.strip() or touched)
        before = after


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_between_blanks_nothing_but_chinese_begins_a_word_of_bytes(byte_bpe, text):
    pieces = byte_bpe.encode([text])[0]
    for start, begins in list(zip(pieces.starts.tolist(), pieces.word_starts.tolist(), strict=True))[1:]:
        behind_blank = start > 0 and text[start - 1].isspace()
        chinese = any(first <= ord(text[start]) <= last for first, last in CHINESE)
        assert not begins or behind_blank or chinese or text[start].isspace()


@pytest.fixture(scope="module")
def small_bytes():
    pieces = [*sorted(BYTES), "pl", "ay", "play", "\u0120play", "in", "ing", "\u0120\u0120"]
    merges = [("p", "l"), ("a", "y"), ("pl", "ay"), ("\u0120", "play"), ("i", "n"), ("in", "g"), ("\u0120", "\u0120")]
    return Tokenizer(
        [*ROBERTA_NAMES.values(), *pieces], False, False, special=ROBERTA_NAMES, algorithm=ByteBpe(tuple(merges))
    )


@pytest.fixture(scope="module")
def small_unigram():
    pieces = [*BERT_NAMES.values(), *"abcdefghijklmnopqrstuvwxyz.,", "\u2581", "\u2581play", "ing", "\u4e2d", "\u5b57"]
    scores = (*[0.0] * 5, *[-9.0] * 28, -4.0, -5.0, -5.0, -8.0, -8.0)
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    algorithm = Unigram(scores, 1, None, metaspace, None)
    return Tokenizer(pieces, False, False, algorithm=algorithm)


def test_words_of_bytes_by_hand(small_bytes):
    assert shown(small_bytes, "playing play") == ["|play", "ing", "|\u0120play"]
    assert shown(small_bytes, "a,play") == ["|a", ",", "play"]
    assert shown(small_bytes, "a   play") == ["|a", "|\u0120\u0120", "\u0120play"]  # blanks belong to the word behind
    assert shown(small_bytes, "a\nplay")[1:] == ["|\u010a", "play"]
    chinese = shown(small_bytes, "a\u4e2d\u5b57 \u4e2d")
    assert chinese == [
        "|a",
        "|\u00e4",
        "\u00b8",
        "\u0143",
        "|\u00e5",
        "\u0143",
        "\u0139",
        "|\u0120",
        "\u00e4",
        "\u00b8",
        "\u0143",
    ]


def test_words_of_unigram_by_hand(small_unigram):
    assert shown(small_unigram, "playing  play.") == ["|\u2581play", "ing", "|\u2581", "\u2581play", "."]
    assert shown(small_unigram, "a\u4e2d\u5b57") == ["|\u2581", "a", "|\u4e2d", "|\u5b57"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" a", True),
        ("\u3000", True),
        ("\u4e2d", True),
        ("\u30ab", False),
        ("a", False),
        ("", False),
        ("##\u4e2d", False),
    ],
)
def test_what_opens_a_word(text, expected):
    assert opens(text) is expected


def test_no_control_id_comes_from_a_piece_of_the_same_name(small_unigram):
    """A Unigram vocabulary holds [SEP] as a piece with the best score of all."""
    assert not set(small_unigram.encode_ids(["[SEP]a[MASK]"])[0].tolist()) & {0, 2, 3, 4}
    assert small_unigram.sep_id in small_unigram.encode(["[SEP]"], allow_special=True)[0].ids
