"""Entropy of attention: known weights, padding, and a loop over a real model's weights."""

import math

import numpy as np
import pytest
import torch

from bertctl.probe.attention import entropies, head_attention, how_many
from bertctl.tasks.task import Features
from bertctl.training.runtime import Runtime
from bertctl.variants.hf import load_model

CPU = Runtime(torch.device("cpu"), torch.float32)


def inputs(*lengths):
    return [Features([5 + i % 7 for i in range(n)], [0] * n, None, 0, n) for n in lengths]


@pytest.mark.parametrize("keys", [2, 5])
def test_uniform_weights_give_log_n_and_one_hot_ones_give_zero(keys):
    mask = torch.ones(1, keys, dtype=torch.bool)
    nats, shares = entropies(torch.full((1, 1, keys, keys), 1 / keys), mask)
    assert nats == pytest.approx(torch.full((1, 1, keys), math.log(keys)))
    assert shares == pytest.approx(torch.ones(1, 1, keys))
    nats, shares = entropies(torch.eye(keys)[None, None], mask)
    assert nats.abs().max() == shares.abs().max() == 0


def test_padding_counts_neither_as_query_nor_as_key():
    mask = torch.tensor([[True, True, False, False]])
    weights = torch.full((1, 1, 4, 4), 0.5)  # a careless kernel: weight on padding too
    nats, shares = entropies(weights, mask)
    assert nats[0, 0, :2] == pytest.approx(torch.full((2,), math.log(2)))
    assert shares[0, 0, :2] == pytest.approx(torch.ones(2))
    assert nats[0, 0, 2:].isnan().all()
    assert shares[0, 0, 2:].isnan().all()


def test_one_key_leaves_nothing_to_choose():
    nats, shares = entropies(torch.ones(1, 1, 1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert nats.item() == 0
    assert shares.isnan().all()


def test_heads_of_a_model_whatever_the_batch_size(checkpoint):
    """Against one input at a time, without padding."""
    model = load_model(checkpoint).model.eval()
    features = inputs(3, 20, 7, 12)
    sums, queries = np.zeros((2, 4)), 0
    for feature in features:
        with torch.no_grad():
            weights = model(torch.tensor([feature.input_ids]), output_attentions=True).attentions
        stacked = torch.stack(weights)[:, 0].double()
        sums += -(stacked * stacked.log()).sum(-1).sum(-1).numpy()
        queries += len(feature.input_ids)
    for size in (1, 3, 8):
        found = head_attention(model, features, tokens=1000, pad_id=0, batch_size=size, runtime=CPU)
        np.testing.assert_allclose([block.nats for block in found], sums / queries, atol=1e-5)
        assert all(0 <= share <= 1 for block in found for share in block.normalised)


def test_the_first_inputs_up_to_a_number_of_pieces():
    assert [how_many([5, 5, 5], most) for most in (1, 5, 9, 10, 15, 99)] == [1, 1, 1, 2, 3, 3]
