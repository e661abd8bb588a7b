"""Temperatures against scipy's minimiser, a known answer, and where there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax

from bertctl.metrics import temperature
from bertctl.metrics.temperature import fit_sigmoid_temperature, fit_temperature


def class_loss(logits, gold, value):
    return -np.log(softmax(logits / value, axis=1)[np.arange(len(gold)), gold]).mean()


def sigmoid_loss(logits, gold, value):
    return np.logaddexp(0, np.where(gold, -1, 1) * logits / value).mean()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 1.0, 30.0]))
def test_the_loss_is_least_there(seed, scale):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(200, 3))
    gold = np.array([generator.choice(3, p=row) for row in softmax(logits, axis=1)])
    true = generator.random((200, 3)) < expit(logits)
    for fit, loss, truth in ((fit_temperature, class_loss, gold), (fit_sigmoid_temperature, sigmoid_loss, true)):
        found = fit(logits * scale, truth)
        least = minimize_scalar(
            lambda x, loss=loss, truth=truth: loss(logits * scale, truth, np.exp(x)), bounds=(-6, 6), method="bounded"
        )
        assert np.log(found) == pytest.approx(least.x, abs=1e-4)
        assert loss(logits * scale, truth, found) <= least.fun + 1e-12


def test_a_known_answer():
    # logits (log 3, 0) say 3/4, and 3 of 4 are right: T = 1, and 5 for logits that are 5 times as large
    logits = 5 * np.log(3.0) * np.array([[1.0, 0.0]] * 4)
    assert fit_temperature(logits, np.array([0, 0, 0, 1])) == pytest.approx(5.0, abs=1e-9)
    assert fit_sigmoid_temperature(logits[:, :1], np.array([[1], [1], [1], [0]])) == pytest.approx(5.0, abs=1e-9)


@pytest.mark.parametrize("gold", [[0, 0], [1, 1]])
def test_none_where_no_temperature_is_best(gold):
    assert fit_temperature(np.array([[2.0, 1.0], [3.0, 1.0]]), np.array(gold)) is None
    assert fit_sigmoid_temperature(np.array([[2.0], [3.0]]), 1 - np.array([gold]).T) is None
    assert fit_temperature(np.zeros((3, 2)), np.array([0, 1, 0])) is None
    assert fit_temperature(np.zeros((0, 2)), np.zeros(0)) is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e200])
def test_the_scale_of_the_logits_goes_into_the_temperature(scale):
    logits, gold = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 3
    gold[:30] = logits[:30].argmax(axis=1)
    assert fit_temperature(logits * scale, gold) == pytest.approx(scale * fit_temperature(logits, gold), rel=1e-9)


def test_extreme_logits_do_not_overflow():
    assert temperature.sigmoid(np.array([-1e5, 0.0, 1e5])).tolist() == [0.0, 0.5, 1.0]
    assert temperature.softmax(np.array([1e5, 0.0])).tolist() == [1.0, 0.0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        fit_temperature(np.array([[np.inf, 0.0]]), np.array([0]))
    with pytest.raises(ValueError, match="expected"):
        fit_temperature(np.zeros((2, 2)), np.array([0]))
    with pytest.raises(ValueError, match="one shape"):
        fit_sigmoid_temperature(np.zeros((2, 2)), np.zeros((2, 1)))
