"""Cheap dropout against what dropout is: shares, means, gradients, and the generator's state."""

import pytest
import torch

from bertctl.encoder.dropout import LEVELS, Dropout, dropout, random_levels


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_and_the_mean_are_right(probability, dtype):
    torch.manual_seed(0)
    x = torch.ones(400_000, dtype=dtype)
    out = dropout(x, probability)
    deviation = (probability * (1 - probability) / len(x)) ** 0.5
    assert float((out == 0).float().mean()) == pytest.approx(probability, abs=4 * deviation + 1 / LEVELS)
    kept = out[out != 0]
    assert torch.equal(kept, torch.full_like(kept, 1 / (1 - round(probability * LEVELS) / LEVELS)))


def test_levels_are_spread_evenly_over_all_values_and_lanes():
    torch.manual_seed(0)
    levels = random_levels(torch.empty(1 << 20)).int()
    counts = torch.histc(levels.float(), bins=64, min=-32768, max=32768)
    expected = len(levels) / 64
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 63 + 5 * (2 * 63) ** 0.5
    lanes = levels.view(-1, 4).float()
    correlations = torch.corrcoef(lanes.T) - torch.eye(4)
    assert correlations.abs().max() < 5 / len(lanes) ** 0.5


def test_the_gradient_passes_where_the_value_passed():
    torch.manual_seed(0)
    x = torch.randn(7, 13, requires_grad=True)
    out = dropout(x, 0.3)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    scale = 1 / (1 - round(0.3 * LEVELS) / LEVELS)
    assert torch.allclose(x.grad, weights * scale * (out != 0))


def test_the_mask_is_a_function_of_the_generator():
    x = torch.ones(1003)
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(dropout(x, 0.2))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])


def test_nothing_is_drawn_without_need():
    state = torch.get_rng_state()
    x = torch.ones(5)
    assert dropout(x, 0.0) is x
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)
