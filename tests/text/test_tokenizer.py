"""Ids, places and words, against transformers' implementation in plain Python and against what BERT's rules say."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from bertctl.text.algorithms import WordPiece
from bertctl.text.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def words_of(tokenizer, text):
    """The pieces put together to words."""
    return " ".join(tokenizer.tokens[i] for i in tokenizer.encode([text])[0].ids).replace(" ##", "").split()


def letters(extra=""):
    """A vocabulary of single letters, so that pieces spell out what normalisation left."""
    alphabet = sorted(set("abcdefghijklmnopqrstuvwxyzACH" + extra))
    return [*SPECIAL, *alphabet, *("##" + letter for letter in alphabet)]


def test_ids_equal_the_plain_python_tokenizer(minilm, minilm_folder, real_texts, odd_texts):
    reference = BertTokenizerLegacy(str(minilm_folder / "vocab.txt"))
    texts = [*real_texts[:40], *(text for text in odd_texts if "[" not in text)]
    ours = minilm.encode(texts)
    for text, pieces in zip(texts, ours, strict=True):
        assert list(pieces.ids) == reference.convert_tokens_to_ids(reference.tokenize(text)), text[:80]
    assert [list(ids) for ids in minilm.encode_ids(texts)] == [list(pieces.ids) for pieces in ours]


def test_a_trained_vocabulary_encodes_longest_piece_first(trained, real_texts, tmp_path):
    trained.save(tmp_path)
    reference = BertTokenizerLegacy(str(tmp_path / "vocab.txt"))
    for text, ids in zip(real_texts[:40], trained.encode_ids(real_texts[:40]), strict=True):
        assert list(ids) == reference.convert_tokens_to_ids(reference.tokenize(text))


@pytest.mark.parametrize(
    ("lowercase", "strip_accents", "expected"),
    [
        (True, True, ["cafe", "hacia", "aouß"]),
        (True, False, ["café", "hacía", "äöüß"]),
        (False, False, ["Café", "HACÍA", "ÄÖÜß"]),
        (False, True, ["Cafe", "HACIA", "AOUß"]),
    ],
)
def test_case_and_accents_are_two_switches(lowercase, strip_accents, expected, tmp_path):
    """huggingface/transformers#2742."""
    tokens = letters("éíÍäöüßÄÖÜI O U")
    tokenizer = Tokenizer(tokens, lowercase=lowercase, strip_accents=strip_accents)
    assert words_of(tokenizer, "Café HACÍA ÄÖÜß\n") == expected
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert words_of(again, "Café HACÍA ÄÖÜß\n") == expected
    assert again.hash == tokenizer.hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\nline", ["one", "line"]),
        ("note\tbook", ["note", "book"]),
        ("a\rb", ["a", "b"]),
        ("x\u00a0y", ["x", "y"]),
        ("a\u0000b", ["ab"]),
        ("a\u0085b", ["ab"]),
    ],
)
def test_control_characters_part_or_vanish_as_in_bert(text, expected):
    """dotnet/machinelearning#7724."""
    assert words_of(Tokenizer(letters(), lowercase=True, strip_accents=True), text) == expected


def test_special_tokens_in_text_are_text(minilm):
    text = "[CLS] a [MASK] b [SEP] [PAD] [UNK]"
    assert not set(minilm.encode([text])[0].ids.tolist()) & set(minilm.special_ids)
    allowed = minilm.encode(["a [MASK] b"], allow_special=True)[0]
    assert minilm.mask_id in allowed.ids.tolist()
    assert allowed.word_starts.all()
    assert (allowed.starts[1], allowed.ends[1]) == (2, 8)


def norm(text):
    folded = unicodedata.normalize("NFD", text.lower())
    return "".join(c for c in folded if unicodedata.category(c) not in ("Mn", "Cc", "Cf", "Co"))


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(codec="utf-8"), max_size=40) | st.text("aé\u0301\u200b\t İßﬁ中字한.#\U0001f600", max_size=30)
)
def test_places_index_the_original_text(minilm, text):
    pieces = minilm.encode([text])[0]
    assert len(pieces.ids) == len(pieces.starts) == len(pieces.ends) == len(pieces.word_starts)
    last = 0
    for token, start, end in zip(pieces.ids, pieces.starts.tolist(), pieces.ends.tolist(), strict=True):
        assert last <= start < end <= len(text) or minilm.tokens[token] == "[UNK]"
        last = start
        if token != minilm.unk_id:  # a Hangul syllable becomes two or three letters, each with the syllable's place
            assert norm(minilm.tokens[token].removeprefix("##")) in norm(text[start:end])


def test_word_starts_are_where_bert_cuts_words(minilm):
    pieces = minilm.encode(["Unwantedness, embeddings don't ##stop"])[0]
    starting = [minilm.tokens[i] for i, starts in zip(pieces.ids, pieces.word_starts, strict=True) if starts]
    assert starting == ["unwanted", ",", "em", "don", "'", "t", "#", "#", "stop"]


def test_no_character_makes_a_word_disappear(minilm):
    """Over 141,318 code points alone give no piece; as words of a sentence with labels they must (tokenizers#1077)."""
    characters = [*range(0x3000), *range(0x3000, sys.maxunicode + 1, 97)]
    words = [chr(number) for number in characters]
    encoded = minilm.encode_words([words])[0]
    assert len(encoded) == len(words)
    assert all(encoded)
    assert encoded[0] == [minilm.unk_id]


def test_words_keep_their_borders(minilm):
    sentences = [["Hello", "don't", "\u200b", "[SEP]", "\ud800", ""], []]
    first, second = minilm.encode_words(sentences)
    assert second == []
    assert [len(pieces) for pieces in first] == [1, 3, 1, 3, 1, 1]
    assert first[2] == first[4] == first[5] == [minilm.unk_id]
    joined = minilm.encode_ids(["Hello don't"])[0].tolist()
    assert first[0] + first[1] == joined


def test_a_lone_surrogate_is_no_crash_and_moves_nothing(minilm):
    pieces = minilm.encode(["\ud83d hello"])[0]
    assert (pieces.starts[-1], pieces.ends[-1]) == (2, 7)


def test_the_hash_covers_everything_that_changes_ids():
    tokens = letters()
    base = Tokenizer(tokens, lowercase=True, strip_accents=True)
    others = [
        Tokenizer(tokens, lowercase=False, strip_accents=True),
        Tokenizer(tokens, lowercase=True, strip_accents=False),
        Tokenizer([*tokens[:-2], tokens[-1], tokens[-2]], lowercase=True, strip_accents=True),
        Tokenizer(tokens, lowercase=True, strip_accents=True, algorithm=WordPiece(handle_chinese_chars=False)),
    ]
    assert len({base.hash, *(other.hash for other in others)}) == 5
    assert base.hash == Tokenizer(list(tokens), lowercase=True, strip_accents=True).hash
