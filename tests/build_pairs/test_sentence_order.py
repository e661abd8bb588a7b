"""Sentence order: neighbours, half of them swapped, and single sentences cut between words."""

import random

import numpy as np

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.layout import Layout
from bertctl.build_pairs.sentence_order import SWAPPED, sentence_order_pairs


def build(shards, seed=0, longest=125):
    layout = Layout.of(shards)
    documents = np.arange(layout.num_documents)
    rng = random.Random(seed)
    return layout, sentence_order_pairs(layout, documents, shards, longest=longest, short_probability=0.1, rng=rng)


def in_order(records):
    """(start, middle, stop) of each pair, swapped ones put right."""
    swapped = records.label == SWAPPED
    first = np.where(swapped, records.b_start, records.a_start)
    middle = np.where(swapped, records.b_stop, records.a_stop)
    again = np.where(swapped, records.a_start, records.b_start)
    stop = np.where(swapped, records.a_stop, records.b_stop)
    assert np.array_equal(middle, again)
    return first, middle, stop


def test_pairs_go_through_the_documents_once(real_shards):
    layout, records = build(real_shards)
    first, middle, stop = in_order(records)
    single = np.diff(layout.bounds)[layout.documents[:-1]][layout.sentences() == 1]
    lost = int(single[single <= 3].sum())  # one word of up to three pieces has no order
    assert (stop - first).sum() == layout.bounds[-1] - lost
    assert (first < middle).all()
    assert (middle < stop).all()
    assert layout.starts_word(middle, real_shards).all()
    documents = layout.bounds[layout.documents]
    assert np.array_equal(
        np.searchsorted(documents, first, side="right"), np.searchsorted(documents, stop - 1, side="right")
    )


def test_half_of_the_pairs_are_swapped(real_shards):
    labels = np.concatenate([build(real_shards, seed)[1].label for seed in range(4)])
    assert abs(labels.mean() - 0.5) < 5 * np.sqrt(0.25 / len(labels))


def test_a_single_sentence_is_cut_between_its_middle_words(make_tokens):
    shards = TokenShards(make_tokens([[12], [3]], word=3))
    _, records = build(shards)
    first, middle, stop = in_order(records)
    assert [first.tolist(), middle.tolist(), stop.tolist()] == [[0], [6], [12]]
