"""Held-out documents: whole, drawn by seed, and only if both sides stay usable."""

import numpy as np
import pytest

from bertctl.build_pairs.split import hold_out


@pytest.mark.parametrize("pairs", [False, True])
def test_every_document_is_on_one_side(pairs):
    sentences = np.arange(1000) % 5 + 1
    train, held = hold_out(sentences, 0.05, seed=1, pairs=pairs)
    assert sorted([*train, *held]) == list(range(1000))
    assert len(held) == 50
    again, other = (hold_out(sentences, 0.05, seed=seed, pairs=pairs)[1] for seed in (1, 2))
    assert np.array_equal(held, again)
    assert not np.array_equal(held, other)


@pytest.mark.parametrize(
    ("sentences", "pairs", "held"),
    [([1, 1, 2], True, 0), ([2, 2, 2, 2], True, 2), ([2] * 10, True, 2), ([1, 1], False, 1), ([5], False, 0)],
)
def test_small_corpora(sentences, pairs, held):
    assert len(hold_out(np.array(sentences), 0.02, seed=1, pairs=pairs)[1]) == held


def test_more_are_held_out_if_pairs_need_it():
    sentences = np.array([1] * 95 + [2] * 5)
    train, held = hold_out(sentences, 0.01, seed=1, pairs=True)
    assert (sentences[held] == 2).any()
    assert (sentences[train] == 2).any()


def test_none_if_none_is_asked_for():
    assert len(hold_out(np.full(100, 3), 0.0, seed=1, pairs=True)[1]) == 0
