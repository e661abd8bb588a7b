"""Correlations and squared errors against scipy and scikit-learn, from sums."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import mean_squared_error

from bertctl.metrics.regression import mean_ranks, regression_metrics
from bertctl.metrics.rows import sample_values

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.floats(-1e4, 1e4)), min_size=2, max_size=40)


def points(gold, predicted):
    return {name: metric.point() for name, metric in regression_metrics(gold, predicted).items()}


@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_equal_to_scipy_and_scikit_learn(pairs):
    gold, predicted = np.array(pairs, dtype=float).T
    assume(np.ptp(gold) > 0 and np.ptp(predicted) > 1e-3)
    found = points(gold, predicted)
    assert found["pearson"] == pytest.approx(stats.pearsonr(gold, predicted).statistic, abs=1e-9)
    assert found["spearman"] == pytest.approx(stats.spearmanr(gold, predicted).statistic, abs=1e-9)
    assert found["mse"] == pytest.approx(mean_squared_error(gold, predicted), rel=1e-9)


@given(st.lists(st.integers(0, 4), max_size=20))
def test_ranks_share_ties(values):
    np.testing.assert_array_equal(mean_ranks(np.array(values, dtype=float)), stats.rankdata(values))


def test_offset_and_scale_of_the_predictions_do_not_cost_digits():
    generator = np.random.default_rng(0)
    gold = generator.normal(size=50)
    predicted = gold + generator.normal(size=50)
    expected = stats.pearsonr(gold, predicted).statistic
    far = regression_metrics(gold * 1e-300, predicted * 1e300)
    assert far["pearson"].point() == pytest.approx(expected, abs=1e-9)
    assert "too large" in far["mse"].summary()["reason"]
    assert points(gold, predicted + 1e6)["pearson"] == pytest.approx(expected, abs=1e-9)
    assert points(gold, predicted)["mse"] == pytest.approx(((gold - predicted) ** 2).mean(), abs=1e-9)


def test_bootstrap_is_pearson_of_resampled_pairs():
    generator = np.random.default_rng(1)
    gold = generator.normal(size=60)
    predicted = gold + generator.normal(size=60)
    chosen = generator.integers(0, 60, size=(3000, 60))
    looped = [stats.pearsonr(gold[rows], predicted[rows]).statistic for rows in chosen]
    drawn = sample_values(regression_metrics(gold, predicted)["pearson"], samples=3000, seed=2)
    assert np.mean(drawn) == pytest.approx(np.mean(looped), abs=0.01)
    assert np.std(drawn) == pytest.approx(np.std(looped), abs=0.01)


@pytest.mark.parametrize(
    ("gold", "predicted"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.1, 0.1, 0.1]), ([1], [2]), ([], [])]
)
def test_a_constant_has_no_correlation_and_the_reason_is_said(gold, predicted):
    found = regression_metrics(np.array(gold, dtype=float), np.array(predicted, dtype=float))
    for name in ("pearson", "spearman"):
        summary = found[name].summary()
        assert summary["value"] is summary["low"] is None
        assert "not constant" in summary["reason"]
    assert (found["mse"].point() is None) == (gold == [])


def test_a_sample_of_one_repeated_pair_is_undefined_and_left_out():
    metric = regression_metrics(np.array([0.1, 0.7]), np.array([0.3, 0.9]))["pearson"]
    values = sample_values(metric, samples=200, seed=0)
    assert 0.3 < np.isnan(values).mean() < 0.7
    np.testing.assert_allclose(values[np.isfinite(values)], 1.0)


def test_the_spearman_interval_says_what_it_resamples():
    assert "pairs of ranks" in regression_metrics(np.arange(5), np.arange(5))["spearman"].summary()["note"]


def test_what_are_no_two_lists_of_numbers_is_refused():
    for other in (np.arange(4), np.zeros((5, 1))):  # a column against a list would be broadcast
        with pytest.raises(ValueError, match="one length"):
            regression_metrics(np.arange(5), other)
    with pytest.raises(ValueError, match="not finite"):
        regression_metrics(np.array([1.0, np.nan]), np.arange(2))
