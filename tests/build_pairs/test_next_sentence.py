"""Next-sentence pairs: labels mean what they say, both are as frequent, and every sentence is used."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.layout import Layout
from bertctl.build_pairs.next_sentence import IS_NEXT, IS_RANDOM, can_pair, next_sentence_pairs, require_pairs
from bertctl.errors import BertctlError


def layout_of(lengths):
    flat = [length for document in lengths for length in document]
    bounds = np.concatenate([[0], np.cumsum(flat)]).astype(np.int64)
    documents = np.concatenate([[0], np.cumsum([len(document) for document in lengths])]).astype(np.int64)
    return Layout(bounds, documents, np.array([0, bounds[-1]], dtype=np.int64))


def build(layout, documents=None, *, longest=125, short=0.1, seed=0):
    documents = np.arange(layout.num_documents) if documents is None else documents
    return next_sentence_pairs(layout, documents, longest=longest, short_probability=short, rng=random.Random(seed))


def document_of(layout, positions):
    return np.searchsorted(layout.bounds[layout.documents], positions, side="right") - 1


def test_labels_mean_what_they_say(real_lengths):
    layout = layout_of(real_lengths)
    records = build(layout)
    a, b = document_of(layout, records.a_start), document_of(layout, records.b_start)
    following = records.a_stop == records.b_start
    assert ((records.label == IS_NEXT) == (following & (a == b))).all()
    assert (a[records.label == IS_RANDOM] != b[records.label == IS_RANDOM]).all()
    for start, stop in ((records.a_start, records.a_stop), (records.b_start, records.b_stop)):
        assert np.isin(start, layout.bounds).all()  # whole sentences
        assert np.isin(stop, layout.bounds).all()
        assert (document_of(layout, start) == document_of(layout, stop - 1)).all()


@pytest.mark.parametrize("lengths", ["real", "two sentences", "many"])
def test_half_of_the_pairs_are_random(real_lengths, lengths):
    lengths = {"real": real_lengths, "two sentences": [[9, 9]] * 1500, "many": [[20] * 200] * 30}[lengths]
    labels = np.concatenate([build(layout_of(lengths), seed=seed).label for seed in range(3)])
    assert abs(labels.mean() - 0.5) < 5 * np.sqrt(0.25 / len(labels))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=9), min_size=2, max_size=8),
    st.integers(5, 60),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_every_sentence_is_used_and_none_twice_in_place(lengths, longest, short, seed):
    """Segment A and a true B go through each document once, from first sentence to last."""
    layout = layout_of(lengths)
    records = build(layout, longest=longest, short=short, seed=seed)
    spans = []
    for a_start, a_stop, _, b_stop, label in zip(
        records.a_start, records.a_stop, records.b_start, records.b_stop, records.label, strict=True
    ):
        spans.append((a_start, b_stop if label == IS_NEXT else a_stop))
    assert spans[0][0] == 0
    assert spans[-1][1] == layout.bounds[-1]
    assert all(left[1] == right[0] for left, right in pairwise(spans))


def test_lengths_aim_at_the_target(real_lengths):
    layout = layout_of([[10] * 60] * 200)
    records = build(layout, short=0)
    total = records.a_stop - records.a_start + records.b_stop - records.b_start
    inner = total[:-1][np.diff(document_of(layout, records.a_start)) == 0]
    assert set(inner[:: len(inner) // 50].tolist()) <= {100, 110, 120, 130}  # a random B can end with its document
    assert np.median(inner) == 130
    shorter = build(layout, short=1)
    total = shorter.a_stop - shorter.a_start + shorter.b_stop - shorter.b_start
    assert 55 < np.mean(total) < 85


def test_random_segments_come_from_everywhere_but_only_from_their_split():
    layout = layout_of([[10] * 4] * 60)
    documents = np.arange(0, 60, 2)
    records = build(layout, documents, seed=3)
    others = Counter(document_of(layout, records.b_start[records.label == IS_RANDOM]).tolist())
    assert set(others) <= set(documents.tolist())
    many = [build(layout, documents, seed=seed) for seed in range(60)]
    others = Counter(i for r in many for i in document_of(layout, r.b_start[r.label == IS_RANDOM]).tolist())
    assert set(others) == set(documents.tolist())
    expected = others.total() / len(documents)
    assert all(abs(count - expected) < 5 * np.sqrt(expected) for count in others.values())


def test_the_same_seed_gives_the_same_pairs(real_lengths):
    layout = layout_of(real_lengths)
    same, other = build(layout, seed=1), build(layout, seed=2)
    assert all(
        np.array_equal(getattr(build(layout, seed=1), c), getattr(same, c)) for c in ("a_start", "b_start", "label")
    )
    assert not np.array_equal(same.b_start, other.b_start)


def test_documents_of_one_sentence_only_are_refused_with_the_counts():
    """google-research/bert#125: blank lines after every sentence made every label `random`."""
    with pytest.raises(BertctlError, match="documents=4, single-sentence=4") as caught:
        require_pairs(np.array([1, 1, 1, 1]), "tokens")
    assert caught.value.exit_code == 2
    assert "sentence_order" in caught.value.hint
    with pytest.raises(BertctlError, match="documents=1, single-sentence=0"):
        require_pairs(np.array([9]), "tokens")
    assert can_pair(np.array([1, 2]))


def test_two_documents_give_both_labels():
    """google-research/bert#125: the same four sentences as one document, and a second document."""
    labels = {
        int(label) for seed in range(20) for label in build(layout_of([[4] * 4, [4]]), longest=9, seed=seed).label
    }
    assert labels == {IS_NEXT, IS_RANDOM}


def test_layouts_of_shards_and_of_lengths_agree(real_lengths, real_tokens):
    ours, theirs = layout_of(real_lengths), Layout.of(TokenShards(real_tokens))
    assert np.array_equal(ours.bounds, theirs.bounds)
    assert np.array_equal(ours.documents, theirs.documents)
