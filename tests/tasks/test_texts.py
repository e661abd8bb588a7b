"""Texts are cut from the longer side, one piece at a time, as BERT does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.texts import fit, has_header


@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 40))
def test_fit_equals_the_rule_of_bert(first: int, second: int, room: int) -> None:
    a, b = list(range(first)), list(range(100, 100 + second))
    expected_a, expected_b = a.copy(), b.copy()
    while len(expected_a) + len(expected_b) > room:  # google-research/bert, _truncate_seq_pair
        (expected_a if len(expected_a) > len(expected_b) else expected_b).pop()
    assert fit([a, b], room) == [expected_a, expected_b]


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
