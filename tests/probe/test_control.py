"""The control task's labels: one a word type, drawn like the real ones."""

import numpy as np
import pytest

from bertctl.probe.control import control_labels

SHARES = np.array([0.5, 0.3, 0.2, 0.0])


def test_equal_words_have_equal_labels_in_every_split():
    train = control_labels(["a", "b", "a", "c"], SHARES, 0)
    test = control_labels(["c", "a", "new"], SHARES, 0)
    assert train[0] == train[2] == test[1]
    assert train[3] == test[0]


def test_labels_are_drawn_like_the_real_ones():
    found = control_labels([f"word{i}" for i in range(20_000)], SHARES, 0)
    assert np.bincount(found, minlength=4) / 20_000 == pytest.approx(SHARES, abs=0.015)
    assert 3 not in found


def test_another_seed_gives_another_task():
    words = [f"word{i}" for i in range(200)]
    assert (control_labels(words, SHARES, 0) != control_labels(words, SHARES, 1)).mean() > 0.3


def test_words_that_are_no_unicode_have_labels_too():
    assert len(control_labels(["\ud800", "\0", ""], SHARES, 0)) == 3
