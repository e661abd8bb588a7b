"""Windows: every word is in one, and answered for by exactly one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertctl.errors import BertctlError
from bertctl.text.windows import word_windows


def spans(lengths, **limits):
    return [(window.start, window.stop) for window in word_windows(lengths, **limits)]


def test_overlap_and_none():
    """deepset-ai/FARM#536: 30 words of one piece in 12 places."""
    assert spans([1] * 30, room=12, overlap=4) == [(0, 12), (8, 20), (16, 28), (24, 30)]
    assert spans([1] * 30, room=12, overlap=0) == [(0, 12), (12, 24), (24, 30)]


@pytest.mark.parametrize("overlap", [12, 50, -1])
def test_an_overlap_that_leaves_no_room_is_refused(overlap):
    """huggingface/transformers#2548: the tokenizers library panics at this."""
    with pytest.raises(BertctlError, match="must be < 12"):
        word_windows([1] * 30, room=12, overlap=overlap)
    with pytest.raises(BertctlError, match="room for 0"):
        word_windows([1], room=0, overlap=0)


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 12), st.data())
def test_every_word_is_shown_and_owned_once(lengths, room, data):
    overlap = data.draw(st.integers(0, room - 1))
    windows = word_windows(lengths, room=room, overlap=overlap)
    owners = [word for window in windows for word in range(window.own_start, window.own_stop)]
    assert owners == list(range(len(lengths)))
    for window in windows:
        assert window.start <= window.own_start <= window.own_stop <= window.stop
        assert sum(lengths[window.start : window.stop]) <= room or window.stop == window.start + 1
    for left, right in pairwise(windows):
        assert left.start < right.start <= left.stop < right.stop
        assert sum(lengths[right.start : left.stop]) <= overlap


def test_a_short_sequence_is_one_window():
    assert spans([2, 3], room=5, overlap=4) == [(0, 2)]
    assert spans([], room=5, overlap=4) == []
