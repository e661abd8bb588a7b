"""Packing: every token once, as many sentences as fit, borders of documents kept or crossed as asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.full_sentences import full_sentences
from bertctl.build_pairs.layout import Layout

DOCUMENT = st.lists(st.integers(1, 20), min_size=1, max_size=9)


def layout_of(lengths):
    bounds = np.cumsum([0, *(length for document in lengths for length in document)], dtype=np.int64)
    documents = np.cumsum([0, *map(len, lengths)], dtype=np.int64)
    return Layout(bounds, documents, np.array([0, bounds[-1]]))


@settings(max_examples=80, deadline=None)
@given(st.lists(DOCUMENT, min_size=1, max_size=8), st.integers(20, 50), st.booleans())
def test_packing_is_greedy_and_loses_nothing(lengths, longest, cross):
    layout = layout_of(lengths)
    records = full_sentences(layout, np.arange(len(lengths)), longest=longest, cross_documents=cross)
    assert records.a_start[0] == 0
    assert np.array_equal(records.a_start[1:], records.a_stop[:-1])
    assert records.a_stop[-1] == layout.bounds[-1]
    assert (records.a_stop - records.a_start <= longest).all()
    assert (records.b_start == records.b_stop).all()
    assert (records.label == -1).all()
    ends = layout.bounds[-1:] if cross else layout.bounds[layout.documents]
    for start, stop in zip(records.a_start, records.a_stop, strict=True):
        following = layout.bounds[np.searchsorted(layout.bounds, stop) + 1] if stop < layout.bounds[-1] else None
        assert stop in ends or following - start > longest


@pytest.mark.parametrize("cross", [False, True])
def test_only_the_documents_of_the_split_are_packed(make_tokens, cross):
    shards = TokenShards(make_tokens([[10, 10]] * 6, per_shard=80))  # four documents, then two
    layout = Layout.of(shards)
    records = full_sentences(layout, np.array([0, 1, 3, 4, 5]), longest=45, cross_documents=cross)
    spans = list(zip(records.a_start.tolist(), records.a_stop.tolist(), strict=True))
    apart = [(0, 20), (20, 40), (60, 80), (80, 100), (100, 120)]
    assert spans == ([(0, 40), (60, 80), (80, 120)] if cross else apart)
