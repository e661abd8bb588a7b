"""Truncation: against BERT's own loop, and with whole words kept whole."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.layout import Layout
from bertctl.build_pairs.records import Collector, Records, concatenate, truncate
from bertctl.text.special import BERT_TEMPLATE


def collect(*records):
    collector = Collector()
    for a, b, label in records:
        collector.add(a, b, label)
    return collector.records()


def one_by_one(a, b, longest, rng):
    """BERT's loop: a token at a time from the longer side, from front or back by a coin."""
    sides = [list(a), list(b)]
    while sum(stop - start for start, stop in sides) > longest:
        longer = sides[0] if sides[0][1] - sides[0][0] > sides[1][1] - sides[1][0] else sides[1]
        if rng.random() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1
    return sides


@pytest.fixture(scope="module")
def plain(make_tokens):
    shards = TokenShards(make_tokens([[1000]] * 2))
    return Layout.of(shards), shards


@settings(deadline=None)
@given(a=st.integers(1, 300), b=st.integers(1, 300), longest=st.integers(2, 125))
def test_lengths_are_those_of_the_loop(plain, a, b, longest):
    records = collect(((0, a), (1000, 1000 + b), 0))
    cut = truncate(records, longest, *plain, np.random.default_rng(0))
    (a_start, a_stop), (b_start, b_stop) = one_by_one((0, a), (0, b), longest, random.Random(0))
    assert cut.a_stop[0] - cut.a_start[0] == a_stop - a_start
    assert cut.b_stop[0] - cut.b_start[0] == b_stop - b_start
    assert 0 <= cut.a_start[0] < cut.a_stop[0] <= a
    assert 1000 <= cut.b_start[0] < cut.b_stop[0] <= 1000 + b


def test_front_and_back_lose_as_in_the_loop(plain):
    """The number of tokens lost in front: mean and variance of 5,000 draws each."""
    records = concatenate([collect(((0, 90), (1000, 1060), 0))] * 5000)
    ours = truncate(records, 100, *plain, np.random.default_rng(1)).a_start
    rng = random.Random(1)
    theirs = np.array([one_by_one((0, 90), (0, 60), 100, rng)[0][0] for _ in range(5000)])
    assert abs(ours.mean() - theirs.mean()) < 5 * np.sqrt(10 / 5000 * 2)
    assert abs(ours.var() / theirs.var() - 1) < 5 * np.sqrt(2 / 5000 * 2)


def test_cuts_fall_between_words(real_shards):
    layout = Layout.of(real_shards)
    starts, stops = layout.bounds[:-20:2], layout.bounds[6:-14:2]
    records = Records(starts, stops, starts, stops, np.zeros_like(starts))
    cut = truncate(records, 40, layout, real_shards, np.random.default_rng(2))
    assert (cut.a_stop - cut.a_start + cut.b_stop - cut.b_start <= 40).all()
    for positions in (cut.a_start, cut.a_stop, cut.b_start, cut.b_stop):
        assert layout.starts_word(positions, real_shards).all()


def test_a_word_longer_than_its_room_is_cut_but_not_lost(make_tokens):
    shards = TokenShards(make_tokens([[100], [100]], word=100))
    cut = truncate(collect(((0, 100), (100, 200), 1)), 20, Layout.of(shards), shards, np.random.default_rng(0))
    assert cut.a_stop - cut.a_start == cut.b_stop - cut.b_start == 10


def test_columns_lead_back_to_the_tokens(make_tokens):
    shards = TokenShards(make_tokens([[30], [30], [30]], per_shard=30))
    layout = Layout.of(shards)
    columns = collect(((2, 9), (61, 90), 1), ((30, 60), (90, 90), -1)).columns(layout)
    assert columns["a_shard"].tolist() == [0, 1]
    for row, (a, b) in enumerate([((2, 9), (61, 90)), ((30, 60), None)]):
        for side, expected in (("a", a), ("b", b)):
            shard, start, stop = (int(columns[f"{side}_{what}"][row]) for what in ("shard", "start", "stop"))
            ids = shards.shards[shard].tokens[start:stop].tolist()
            assert ids == (list(range(expected[0] + 5, expected[1] + 5)) if expected else [])
    assert collect(((2, 9), (61, 90), 1), ((30, 60), (90, 90), -1)).lengths(BERT_TEMPLATE.count).tolist() == [39, 32]
