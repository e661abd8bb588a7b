"""Distances of attention on grids where they can be seen."""

import pytest
import torch

from bertctl.probe.patches import Grid, class_token_maps, patch_distances

GRID = Grid(2, 3, 4)


def test_distances_are_between_the_middles_of_patches():
    found = GRID.distances()
    assert found.shape == (6, 6)
    assert found[0].tolist() == pytest.approx([0, 4, 8, 4, 32**0.5, 80**0.5])
    assert torch.equal(found, found.T)


def test_a_head_looks_as_far_as_its_weights_say_and_the_class_token_is_nowhere():
    weights = torch.zeros(1, 3, 7, 7)
    weights[0, 0, 1:, 1:] = torch.eye(6)  # each patch at itself
    weights[0, 1, 1:, 0] = 0.5  # half at the class token, half at the first patch
    weights[0, 1, 1:, 1] = 0.5
    weights[0, 2, 1:, 0] = 1.0  # at nothing else
    itself, first, nothing = patch_distances(weights, GRID.distances())[0]
    assert itself.tolist() == [0.0] * 6
    assert first.tolist() == pytest.approx(GRID.distances()[0].tolist())
    assert nothing.isnan().all()


def test_a_map_has_the_rows_and_columns_of_the_image():
    weights = torch.zeros(1, 1, 7, 7)
    weights[0, 0, 0] = torch.arange(7) / 21
    assert class_token_maps(weights, GRID)[0, 0].tolist() == [
        pytest.approx([1 / 21, 2 / 21, 3 / 21]),
        pytest.approx([4 / 21, 5 / 21, 6 / 21]),
    ]
