"""Calibration against scikit-learn and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from bertctl.metrics.calibration import calibration_metrics, confidence_of, costliest, reliability


def drawn(seed, number=60, classes=3):
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.ones(classes) * 0.7, size=number), generator.integers(0, classes, size=number)


def ece_by_definition(confidence, correct, bins):
    """A loop over bins, as the paper writes it."""
    total = 0.0
    for place in range(bins):
        inside = [i for i, c in enumerate(confidence) if place / bins < c <= (place + 1) / bins]
        if inside:
            gap = abs(np.mean([correct[i] for i in inside]) - np.mean([confidence[i] for i in inside]))
            total += len(inside) / len(confidence) * gap
    return total


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_equal_to_scikit_learn_and_to_the_definition(seed, classes):
    shares, gold = drawn(seed, classes=classes)
    found = {name: metric.point() for name, metric in calibration_metrics(shares, gold).items()}
    assert found["nll"] == pytest.approx(log_loss(gold, shares, labels=range(classes)), abs=1e-9)
    halved = brier_score_loss(gold, shares, labels=range(classes), scale_by_half=False)
    assert found["brier"] == pytest.approx(halved, abs=1e-9)
    assert found["ece"] == pytest.approx(ece_by_definition(*confidence_of(shares, gold), 15), abs=1e-9)


def test_by_hand():
    # confidences 0.7 (right), 0.7 (wrong) share a bin, 0.95 (right) has its own
    shares, gold = np.array([[0.7, 0.3], [0.3, 0.7], [0.95, 0.05]]), np.array([0, 0, 0])
    found = calibration_metrics(shares, gold)
    assert found["ece"].point() == pytest.approx((2 * abs(0.5 - 0.7) + abs(1 - 0.95)) / 3, abs=1e-9)
    assert found["brier"].point() == pytest.approx((2 * 0.09 + 2 * 0.49 + 2 * 0.0025) / 3, abs=1e-9)
    table = reliability(*confidence_of(shares, gold))
    assert len(table) == 15
    assert [row["examples"] for row in table] == [0] * 10 + [2, 0, 0, 0, 1]
    assert table[10]["confidence"] == pytest.approx(0.7)
    assert (table[10]["above"], table[10]["up_to"], table[10]["accuracy"]) == (10 / 15, 11 / 15, 0.5)
    assert table[0]["accuracy"] is table[0]["confidence"] is None


def test_edges_belong_to_the_bin_below():
    table = reliability(np.array([0.0, 0.25, 0.2500001, 1.0]), np.array([0, 1, 1, 1]), bins=4)
    assert [row["examples"] for row in table] == [2, 1, 0, 1]


def test_undefined():
    certain = calibration_metrics(np.array([[1.0, 0.0]]), np.array([1]))
    assert certain["nll"].summary()["reason"] == "a gold class has probability 0"
    assert certain["brier"].point() == 2.0
    nothing = calibration_metrics(np.zeros((0, 2)), np.zeros(0))
    assert {metric.summary()["reason"] for metric in nothing.values()} == {"there are no examples"}


@pytest.mark.parametrize(
    ("shares", "gold"), [([[0.5, 0.5]], [2]), ([[0.5, 0.5]], [0, 1]), ([0.5], [0]), ([[float("nan"), 1]], [0])]
)
def test_what_does_not_fit_is_refused(shares, gold):
    with pytest.raises(ValueError, match=r"fit|expected|finite"):
        calibration_metrics(np.array(shares), np.array(gold))


def test_costliest_errors_come_first_and_right_answers_never():
    losses, wrong = [0.1, 3.0, 9.0, 3.0, 5.0], [True, True, False, True, True]
    assert costliest(losses, wrong) == [4, 1, 3, 0]
    assert costliest(losses, wrong, most=2) == [4, 1]
    assert costliest([], []) == []
