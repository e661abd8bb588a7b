"""Positions over all shards, and cutting long sentences between words."""

import numpy as np
import pytest

from bertctl.artifacts.shards import TokenShards
from bertctl.build_pairs.layout import Layout


def test_positions_lead_back_to_tokens(make_tokens):
    lengths = [[3, 4], [30], [25, 1], [7, 7, 7]]
    shards = TokenShards(make_tokens(lengths, per_shard=7))
    layout = Layout.of(shards)
    assert len(shards.shards) == 4
    flat = [length for document in lengths for length in document]
    assert layout.bounds.tolist() == [0, *np.cumsum(flat)]
    assert layout.sentences().tolist() == [2, 1, 2, 3]
    positions = np.arange(sum(flat))
    shard, index = layout.locate(positions)
    assert [int(shards.shards[s].tokens[i]) for s, i in zip(shard, index, strict=True)] == (positions + 5).tolist()


def test_word_starts_are_read_across_shards(make_tokens):
    shards = TokenShards(make_tokens([[5], [7, 4], [9]], word=3, per_shard=6))
    layout = Layout.of(shards)
    expected = [i % 3 == 0 for length in (5, 7, 4, 9) for i in range(length)]
    assert layout.starts_word(np.arange(26), shards).tolist() == [*expected, True]


@pytest.mark.parametrize(("word", "longest"), [(1, 10), (3, 10), (4, 10), (50, 10), (3, 1)])
def test_long_sentences_are_cut_between_words(make_tokens, word, longest):
    lengths = [[3, 47], [10], [23, 11, 2]]
    shards = TokenShards(make_tokens(lengths, word=word, per_shard=45))
    whole = Layout.of(shards)
    cut = whole.cut_long(longest, shards)
    assert np.diff(cut.bounds).max() <= longest
    assert np.isin(whole.bounds, cut.bounds).all()
    assert np.array_equal(cut.bounds[cut.documents], whole.bounds[whole.documents])
    new = np.setdiff1d(cut.bounds, whole.bounds)
    assert len(new) > 0
    if word <= longest:
        assert cut.starts_word(new, shards).all()
    short = Layout.of(shards).cut_long(47, shards)
    assert np.array_equal(short.bounds, whole.bounds)
