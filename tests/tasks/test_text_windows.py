"""Whole texts in windows: every piece is shown, counted once, and a text has one answer."""

import numpy as np
import pytest

from bertctl.errors import BertctlError
from bertctl.tasks.audit import truncation, windows_read
from bertctl.tasks.task import Limits, TextExample
from bertctl.tasks.text_windows import encode_labelled, mean_over_windows
from bertctl.text.tokenizer import Tokenizer

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS], True, True)
ALPHABET = " ".join(LETTERS)


def shown(feature) -> str:
    return "".join(TOKENIZER.tokens[i].replace("[CLS]", "^").replace("[SEP]", "|") for i in feature.input_ids)


def encode(examples: list[TextExample], **limits) -> list:
    return encode_labelled(examples, TOKENIZER, Limits(windows=True, **limits), {"x": 0, "y": 1}.__getitem__)


def test_windows_share_the_overlap_and_carry_the_label_of_their_text() -> None:
    examples = [TextExample("a b", None, "x", "f:1"), TextExample(ALPHABET, None, "y", "f:2")]
    features = encode(examples, max_length=12, overlap=3)
    assert [shown(f) for f in features] == ["^ab|", "^abcdefghij|", "^hijklmnopq|", "^opqrstuvwx|", "^vwxyz|"]
    assert [f.labels for f in features] == [0, 1, 1, 1, 1]
    assert [f.example for f in features] == [0, 1, 1, 1, 1]
    assert truncation(features) == {"truncated": 0, "examples": 2, "pieces": 28, "pieces_kept": 28}
    assert windows_read(features) == {"texts_in_windows": 1, "windows": 5}


@pytest.mark.parametrize("longer_first", [True, False])
def test_of_a_pair_the_longer_text_is_read_in_windows_and_the_other_stands_in_each(longer_first: bool) -> None:
    texts = (ALPHABET, "a b c") if longer_first else ("a b c", ALPHABET)
    features = encode([TextExample(*texts, None, "f:1")], max_length=16, overlap=0)
    expected = ["abcdefghij", "klmnopqrst", "uvwxyz"]
    assert [shown(f) for f in features] == [f"^{w}|abc|" if longer_first else f"^abc|{w}|" for w in expected]
    split = len(expected[0]) + 2 if longer_first else 5
    assert features[0].token_type_ids == [0] * split + [1] * (len(features[0].input_ids) - split)
    assert {f.labels for f in features} == {None}


def test_a_short_text_that_would_leave_no_room_is_cut_to_half_of_it_and_counted() -> None:
    features = encode([TextExample(ALPHABET, "a b c d e f g h", None, "f:1")], max_length=11, overlap=0)
    assert [shown(f) for f in features][:2] == ["^abcd|abcd|", "^efgh|abcd|"]
    assert truncation(features) == {"truncated": 1, "examples": 1, "pieces": 34, "pieces_kept": 30}


def test_an_overlap_that_leaves_nothing_new_is_refused() -> None:
    with pytest.raises(BertctlError, match="must be < 10"):
        encode([TextExample(ALPHABET, None, "x", "f:1")], max_length=12, overlap=10)


def test_logits_of_one_text_are_averaged() -> None:
    features = encode([TextExample(ALPHABET, None, "x", "f:1"), TextExample("a", None, "y", "f:2")], max_length=22)
    logits = [np.array(row, dtype=np.float32) for row in ([1, 5], [3, 1], [7, 9])]
    assert len(features) == 3
    assert mean_over_windows(2, features, logits).tolist() == [[2, 3], [7, 9]]
    assert mean_over_windows(0, [], []).shape == (0, 0)
