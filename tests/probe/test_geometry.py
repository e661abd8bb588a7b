"""Mean cosine and effective rank of matrices for which the answer is known."""

import numpy as np
import pytest

from bertctl.probe.geometry import effective_rank, mean_cosine


@pytest.mark.parametrize("size", [1, 3, 16])
def test_the_identity_uses_all_directions(size):
    assert effective_rank(np.eye(size)) == pytest.approx(size)


def test_one_line_has_rank_one_and_nothing_has_none():
    assert effective_rank(np.outer(np.arange(1.0, 9), np.arange(1.0, 5))) == pytest.approx(1, abs=1e-6)
    assert effective_rank(np.zeros((4, 4))) is None


def test_effective_rank_by_hand():
    """Singular values 3 and 1: shares 3/4 and 1/4."""
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert effective_rank(np.diag([3.0, 1.0, 0.0])) == pytest.approx(np.exp(entropy))


def test_states_on_one_ray_have_cosine_one_and_opposite_ones_minus_one():
    ray = np.outer(np.arange(1, 20), [1.0, 2.0, -1.0]).astype(np.float32)
    assert mean_cosine(ray, pairs=200, seed=0) == pytest.approx(1, abs=1e-6)
    assert mean_cosine(np.array([[1, 2], [-2, -4]], dtype=np.float32), pairs=50, seed=0) == pytest.approx(-1, abs=1e-6)


def test_a_state_is_never_compared_with_itself():
    assert mean_cosine(np.eye(5, dtype=np.float32), pairs=500, seed=0) == 0


def test_the_mean_over_random_pairs_is_near_that_over_all():
    states = (np.random.default_rng(0).standard_normal((60, 8)) + 1).astype(np.float32)
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    cosines = unit @ unit.T
    expected = cosines[~np.eye(60, dtype=bool)].mean()
    assert mean_cosine(states, pairs=20_000, seed=1) == pytest.approx(expected, abs=0.01)


def test_no_pair_and_no_direction_have_no_cosine():
    assert mean_cosine(np.ones((1, 3), dtype=np.float32), pairs=5, seed=0) is None
    assert mean_cosine(np.zeros((3, 3), dtype=np.float32), pairs=5, seed=0) is None
