"""Thresholds with the best micro-F1, against trying every one that there is with scikit-learn."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import f1_score

from bertctl.tasks.thresholds import best_threshold, best_thresholds


def micro_f1(gold: np.ndarray, predicted: np.ndarray) -> float:
    return f1_score(gold.ravel(), predicted.ravel(), zero_division=0)


def drawn(seed: int, examples: int, labels: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    gold = generator.random((examples, labels)) < 0.4
    return gold, (gold * 0.3 + generator.random((examples, labels)) * 0.7).round(2)  # with ties


def every_cut(shares: np.ndarray) -> list[float]:
    return [*np.unique(shares), 1.1]


@pytest.mark.parametrize("seed", range(8))
def test_one_threshold_is_the_best_there_is(seed: int) -> None:
    gold, shares = drawn(seed, 30, 3)
    best = max(micro_f1(gold, shares >= cut) for cut in every_cut(shares))
    assert micro_f1(gold, shares >= best_threshold(gold, shares)) == best


@pytest.mark.parametrize("seed", range(8))
def test_several_thresholds_are_the_best_together(seed: int) -> None:
    gold, shares = drawn(seed, 7, 3)
    all_cuts = itertools.product(*(every_cut(shares[:, label]) for label in range(3)))
    best = max(micro_f1(gold, shares >= np.array(cuts)) for cuts in all_cuts)
    found = best_thresholds(gold, shares)
    assert micro_f1(gold, shares >= np.array(found)) == pytest.approx(best, abs=1e-12)
    assert best >= micro_f1(gold, shares >= best_threshold(gold, shares))


def test_of_equally_good_thresholds_the_one_nearest_to_a_half_wins() -> None:
    gold, shares = np.array([[True], [False], [True]]), np.array([[0.9], [0.2], [0.8]])
    assert best_threshold(gold, shares) == 0.5
    assert best_thresholds(gold, shares) == [0.5]


@pytest.mark.parametrize("gold", [np.zeros((4, 2), bool), np.zeros((0, 2), bool)])
def test_without_any_label_every_threshold_is_as_good(gold: np.ndarray) -> None:
    shares = np.full(gold.shape, 0.25)
    assert 0 <= best_threshold(gold, shares) <= 1
    assert all(0 <= cut <= 1 for cut in best_thresholds(gold, shares))
