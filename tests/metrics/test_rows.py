"""Points and intervals from rows: sums that add, intervals that cover, and nothing where nothing is defined."""

import numpy as np
import pytest

from bertctl.metrics import rows as rows_module
from bertctl.metrics.classification import classification_metrics
from bertctl.metrics.rows import Metric, bootstrap, distinct_rows, sample_values


def mean_metric(values: np.ndarray) -> Metric:
    rows = np.stack([values, np.ones_like(values)], axis=1)
    return Metric("mean", rows, lambda sums: sums[..., 0] / sums[..., 1], "there are no examples")


def test_interval_of_a_mean_is_the_textbook_interval() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, size=400)
    low, high = bootstrap(mean_metric(values), samples=4000, seed=5)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_weights_equal_a_loop_over_resampled_examples() -> None:
    gold, predicted = np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 1, 2, 2, 2, 0])
    metric = classification_metrics(gold, predicted, 3)["macro_f1"]
    generator = np.random.default_rng(0)
    looped = []
    for _ in range(3000):
        chosen = generator.integers(0, len(gold), size=len(gold))
        looped.append(classification_metrics(gold[chosen], predicted[chosen], 3)["macro_f1"].point())
    drawn = sample_values(metric, samples=3000, seed=1)
    assert np.mean(drawn) == pytest.approx(np.mean(looped), abs=0.012)
    assert np.std(drawn) == pytest.approx(np.std(looped), abs=0.012)


def test_seed_decides_and_order_does_not() -> None:
    values = np.arange(30.0)
    metric, shuffled = mean_metric(values), mean_metric(np.random.default_rng(0).permutation(values))
    assert bootstrap(metric, seed=3) == bootstrap(metric, seed=3) == bootstrap(shuffled, seed=3)
    assert bootstrap(metric, seed=3) != bootstrap(metric, seed=4)


def test_chunks_change_the_memory_and_not_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = mean_metric(np.arange(50.0))
    whole = sample_values(metric, samples=101, seed=2)
    monkeypatch.setattr(rows_module, "MOST_WEIGHTS", 7 * 50)
    np.testing.assert_array_equal(sample_values(metric, samples=101, seed=2), whole)


def test_undefined_is_none_with_the_reason() -> None:
    empty = mean_metric(np.zeros(0))
    assert empty.summary() == {
        "value": None,
        "low": None,
        "high": None,
        "examples": 0,
        "reason": "there are no examples",
    }


def test_samples_that_are_undefined_are_left_out() -> None:
    gold = np.array([0, 0, 0, 0, 0, 1])  # a third of the samples has no 1 at all
    values = sample_values(classification_metrics(gold, gold, 2)["mcc"], samples=300, seed=0)
    assert 0.2 < np.isnan(values).mean() < 0.5
    summary = classification_metrics(gold, gold, 2)["mcc"].summary(seed=0)
    assert (summary["value"], summary["low"], summary["high"]) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float64])
def test_distinct_rows_are_those_of_numpy_in_an_order_of_their_own(kind):
    rows = np.random.default_rng(0).integers(0, 3, (50, 3)).astype(kind)
    expected, counts = np.unique(rows, axis=0, return_counts=True)
    found = distinct_rows(rows)
    assert dict(zip(map(tuple, found[0]), found[1], strict=True)) == dict(
        zip(map(tuple, expected), counts, strict=True)
    )
    again = distinct_rows(rows[::-1])
    np.testing.assert_array_equal(found[0], again[0])
    np.testing.assert_array_equal(found[1], again[1])
