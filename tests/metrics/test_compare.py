"""Paired comparisons: intervals and p-values against loops, exact counts and scipy."""

import itertools

import numpy as np
import pytest
from scipy import stats

from bertctl.metrics.classification import classification_metrics
from bertctl.metrics.compare import compare, difference_of, heads, randomisation
from bertctl.metrics.regression import regression_metrics
from bertctl.metrics.rows import Metric, sample_values
from bertctl.metrics.tagging import tagging_metrics


def mean_metric(values, name="mean"):
    rows = np.stack([values, np.ones_like(values)], axis=1)
    return Metric(name, rows, lambda sums: sums[..., 0] / sums[..., 1], "there are no examples")


def test_p_is_that_of_all_swaps():
    first, second = np.array([5.0, 3, 4, 2, 5, 4, 1, 3]), np.array([4.0, 3, 2, 2, 4, 1, 2, 3])
    observed = abs(first.mean() - second.mean())
    signs = itertools.product([1, -1], repeat=8)
    exact = np.mean([abs(np.mean(np.array(sign) * (first - second))) >= observed - 1e-12 for sign in signs])
    found = randomisation(mean_metric(first), mean_metric(second), rounds=20_000, seed=1)
    assert found == pytest.approx(exact, abs=0.012)
    reference = stats.permutation_test(
        (first, second), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    )
    assert found == pytest.approx(reference.pvalue, abs=0.012)


def test_p_of_a_metric_that_is_no_mean_equals_a_loop():
    generator = np.random.default_rng(3)
    gold = generator.integers(0, 3, 80)
    one, two = (np.where(generator.random(80) < share, gold, generator.integers(0, 3, 80)) for share in (0.6, 0.4))

    def macro_f1(predicted):
        return classification_metrics(gold, predicted, 3)["macro_f1"].point()

    observed, hits = abs(macro_f1(one) - macro_f1(two)), 0
    for _ in range(1500):
        swap = generator.random(80) < 0.5
        hits += abs(macro_f1(np.where(swap, two, one)) - macro_f1(np.where(swap, one, two))) >= observed - 1e-12
    metrics = [classification_metrics(gold, predicted, 3)["macro_f1"] for predicted in (one, two)]
    assert randomisation(*metrics, rounds=8000, seed=0) == pytest.approx(hits / 1500, abs=0.035)


def test_coins_of_any_number_fall_as_coins_do():
    counts = np.array([1, 5, 1, 40, 1])
    found = heads(np.random.default_rng(0), counts, 4000)
    assert set(found[:, 0]) == {0, 1}
    np.testing.assert_allclose(found.mean(axis=0), counts / 2, atol=0.25)
    np.testing.assert_allclose(found.var(axis=0), counts / 4, rtol=0.1)
    assert abs(np.corrcoef(found.T) - np.eye(5)).max() < 0.08
    assert heads(np.random.default_rng(0), counts[:0], 7).shape == (7, 0)


def test_the_unit_of_a_metric_does_not_change_p():
    generator = np.random.default_rng(1)
    first, second = generator.integers(0, 3, (2, 40)).astype(float)
    plain = randomisation(mean_metric(first), mean_metric(second))
    for unit in (1e-20, 1e20):
        assert randomisation(mean_metric(first * unit), mean_metric(second * unit)) == pytest.approx(plain, abs=0.02)


def test_equal_systems_differ_by_nothing_and_p_is_1():
    found = compare(mean_metric(np.arange(9.0)), mean_metric(np.arange(9.0)), rounds=100)
    assert (found["difference"], found["low"], found["high"], found["p_value"]) == (0.0, 0.0, 0.0, 1.0)


def test_p_is_never_0():
    better, worse = mean_metric(np.ones(200)), mean_metric(np.zeros(200))
    assert randomisation(better, worse, rounds=999) == 1 / 1000
    assert compare(better, worse, rounds=999)["difference"] == 1.0


def test_interval_of_paired_means_is_that_of_their_differences():
    generator = np.random.default_rng(0)
    hardness = generator.normal(size=300)
    first, second = hardness + 0.1 * generator.normal(size=300), hardness
    found = compare(mean_metric(first), mean_metric(second), samples=4000, rounds=200)
    half = 1.96 * (first - second).std() / np.sqrt(300)
    assert found["low"] == pytest.approx((first - second).mean() - half, abs=0.1 * half)
    assert found["high"] == pytest.approx((first - second).mean() + half, abs=0.1 * half)
    assert found["high"] - found["low"] < 0.2 * 4 * hardness.std() / np.sqrt(300)  # far narrower than unpaired


def test_difference_is_of_the_same_samples():
    first, second = mean_metric(np.arange(20.0)), mean_metric(np.arange(20.0) + 3)
    np.testing.assert_allclose(sample_values(difference_of(first, second), samples=50, seed=0), -3.0)


def test_systems_that_find_other_types_still_compare():
    gold = [["B-PER", "O"], ["B-LOC", "O"], ["O", "B-PER"]]
    one = tagging_metrics(gold, gold, scheme="BIO")["f1"]
    two = tagging_metrics(gold, [["B-ORG", "O"], ["O", "O"], ["O", "B-PER"]], scheme="BIO")["f1"]
    assert compare(one, two, rounds=50)["difference"] == pytest.approx(1 - 2 / 5)


def test_correlations_of_other_scales_compare():
    generator = np.random.default_rng(0)
    gold = generator.normal(size=100)
    said = gold + generator.normal(size=100)
    one, two = (regression_metrics(gold, values)["pearson"] for values in (said, 1000 * said - 7))
    found = compare(one, two, rounds=100)
    assert found["difference"] == pytest.approx(0, abs=1e-12)
    assert found["p_value"] == 1.0


def test_undefined_is_none_with_the_reason():
    constant, varied = (regression_metrics(np.arange(4), values)["pearson"] for values in (np.ones(4), np.arange(4)))
    for pair in ((constant, varied), (varied, constant)):
        found = compare(*pair, rounds=10)
        assert found["difference"] is found["low"] is found["p_value"] is None
        assert "not constant" in found["reason"]


def test_other_metrics_or_examples_are_refused():
    with pytest.raises(ValueError, match="expected one metric"):
        compare(mean_metric(np.ones(3)), mean_metric(np.ones(4)))
    with pytest.raises(ValueError, match="expected one metric"):
        compare(mean_metric(np.ones(3)), mean_metric(np.ones(3), "other"))
