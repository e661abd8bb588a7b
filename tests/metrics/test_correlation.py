"""Correlations against scipy, ties and extremes included."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from bertctl.metrics.correlation import mean_ranks, pearson, spearman

NUMBERS = st.lists(st.tuples(st.integers(-5, 5), st.floats(-1e6, 1e6)), min_size=2, max_size=40)


@settings(max_examples=100, deadline=None)
@given(NUMBERS)
def test_equal_to_scipy(pairs: list[tuple[int, float]]) -> None:
    first, second = np.array(pairs, dtype=float).T
    assume(np.ptp(first) > 0 and np.ptp(second) > 1e-3)
    assert pearson(first, second) == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-9)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)


@given(st.lists(st.integers(0, 4), max_size=20))
def test_ranks_share_ties(values: list[int]) -> None:
    np.testing.assert_array_equal(mean_ranks(np.array(values, dtype=float)), stats.rankdata(values))


@pytest.mark.parametrize(("first", "second"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1], [2]), ([], [])])
def test_undefined_is_none(first: list[float], second: list[float]) -> None:
    assert pearson(np.array(first), np.array(second)) is None
    assert spearman(np.array(first), np.array(second)) is None


def test_very_large_and_very_small_values() -> None:
    assert pearson(np.array([1e300, -1e300, 3e300]), np.array([1e-300, -1e-300, 3e-300])) == pytest.approx(1.0)


def test_a_column_against_a_list_is_refused_and_not_broadcast() -> None:
    with pytest.raises(ValueError, match="one length"):
        pearson(np.zeros((3, 1)), np.arange(3))
    with pytest.raises(ValueError, match="not finite"):
        spearman(np.array([1.0, np.nan]), np.arange(2))
