"""Texts are cut from the longer side, one piece at a time, as BERT does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.task import TextExample
from bertctl.tasks.texts import encode_texts, fit, has_header
from bertctl.text.train_byte_bpe import train_byte_bpe


@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 40))
def test_fit_equals_the_rule_of_bert(first: int, second: int, room: int) -> None:
    a, b = list(range(first)), list(range(100, 100 + second))
    expected_a, expected_b = a.copy(), b.copy()
    while len(expected_a) + len(expected_b) > room:  # google-research/bert, _truncate_seq_pair
        (expected_a if len(expected_a) > len(expected_b) else expected_b).pop()
    assert fit([a, b], room) == [expected_a, expected_b]
    assert fit([a], room) == [a[:room]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (DataSection(), True),
        (DataSection(columns=ColumnsSection(text="a")), True),
        (DataSection(columns=ColumnsSection(text=1)), False),
        (DataSection(columns=ColumnsSection(text=1), header=True), True),
        (DataSection(header=False), False),
    ],
)
def test_a_position_means_no_header(data: DataSection, expected: bool) -> None:
    assert has_header(data) is expected


def test_a_pair_stands_as_in_its_family(tmp_path) -> None:
    """<s> A </s></s> B </s> in RoBERTa, against transformers; no feature is longer than asked for."""
    tokenizer = train_byte_bpe(["one two three four five"] * 3, vocab_size=280)
    tokenizer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for pair in (None, "three"):
        (feature,) = encode_texts([TextExample("one two", pair, None, "f:1")], tokenizer, 64)
        expected = theirs("one two", pair, return_token_type_ids=True)
        assert (feature.input_ids, feature.token_type_ids) == (expected["input_ids"], expected["token_type_ids"])
    (feature,) = encode_texts(
        [TextExample("one two three four five " * 9, "five four " * 9, None, "f:1")], tokenizer, 20
    )
    assert len(feature.input_ids) == 20
    assert [i for i in feature.input_ids if i in (tokenizer.cls_id, tokenizer.sep_id)] == [0, 2, 2, 2]
