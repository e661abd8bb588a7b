"""The linear probe: planted answers, chance, and scikit-learn's optimum on the same data."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from bertctl.probe.linear import accuracy_metric, fit, scaling_of


def planted(rows, *, classes, width, noise, seed):
    """States that lie around one centre a class."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((classes, width))
    labels = generator.integers(0, classes, rows)
    return (centres[labels] + noise * generator.standard_normal((rows, width))).astype(np.float32), labels


def test_separable_states_are_separated_on_new_data():
    train, train_labels = planted(400, classes=4, width=16, noise=0.2, seed=1)
    test, test_labels = planted(400, classes=4, width=16, noise=0.2, seed=2)
    scaling = scaling_of(train)
    found = fit(scaling(train), train_labels, 4, strength=1e-3, iterations=100).predict(scaling(test))
    assert (found == test_labels).mean() > 0.99


def test_labels_that_have_nothing_to_do_with_the_states_are_guessed():
    generator = np.random.default_rng(3)
    states = generator.standard_normal((3000, 8)).astype(np.float32)
    labels = generator.integers(0, 4, 3000)
    found = fit(torch.from_numpy(states[:2000]), labels[:2000], 4, strength=1e-3, iterations=100)
    assert (found.predict(torch.from_numpy(states[2000:])) == labels[2000:]).mean() == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize("strength", [1e-3, 1e-1])
def test_the_optimum_is_that_of_scikit_learn(strength):
    states, labels = planted(500, classes=3, width=12, noise=1.5, seed=4)
    inputs = scaling_of(states)(states)
    ours = fit(inputs, labels, 3, strength=strength, iterations=300)
    reference = LogisticRegression(C=1 / (strength * len(labels)), tol=1e-8, max_iter=5000)
    reference.fit(inputs.numpy().astype(np.float64), labels)
    np.testing.assert_allclose(ours.weight.numpy(), reference.coef_, atol=2e-3)
    agreement = (ours.predict(inputs) == reference.predict(inputs.numpy())).mean()
    assert agreement > 0.99


def test_the_start_changes_nothing():
    states, labels = planted(300, classes=3, width=6, noise=1.5, seed=5)
    inputs = scaling_of(states)(states)
    stronger = fit(inputs, labels, 3, strength=1.0, iterations=300)
    cold, warm = (fit(inputs, labels, 3, strength=1e-2, iterations=300, start=start) for start in (None, stronger))
    np.testing.assert_allclose(cold.weight.numpy(), warm.weight.numpy(), atol=2e-3)


def test_scaling_is_that_of_train_and_leaves_a_constant_finite():
    train = np.array([[1, 5], [3, 5]], dtype=np.float32)
    scaling = scaling_of(train)
    assert scaling(train).tolist() == [[-1, 0], [1, 0]]
    assert scaling(np.array([[5, 6]], dtype=np.float32)).tolist() == [[3, 1]]


def test_accuracy_counts_words_and_resamples_sentences():
    metric = accuracy_metric(np.array([0, 1, 1, 0]), np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1]))
    assert metric.point() == 0.75
    assert metric.rows.tolist() == [[2, 3], [1, 1]]
