"""Last states of chosen places against the whole encoder's: the same values, gradients and work left undone."""

import itertools

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder

PLACES = torch.tensor([0, 4, 9, 13, 26])
SHAPES = list(itertools.product(("pre", "post"), ("none", "all"), (0, 3), (False, True), (1, 3)))


def encoder(place, sharing, convolution, checkpointing, layers):
    torch.manual_seed(5)
    built = Encoder(
        EncoderConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=layers,
            num_attention_heads=4,
            intermediate_size=32,
            max_position_embeddings=24,
            norm_place=place,
            layer_sharing=sharing,
            conv_kernel_size=convolution,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    built.gradient_checkpointing = checkpointing
    return built.train()


def inputs():
    ids = torch.randint(5, 50, (3, 9), generator=torch.Generator().manual_seed(1))
    return ids, torch.arange(9) < torch.tensor([[9], [7], [9]])


@pytest.mark.parametrize(("place", "sharing", "convolution", "checkpointing", "layers"), SHAPES)
def test_states_and_gradients_at_places_are_those_of_the_whole(place, sharing, convolution, checkpointing, layers):
    model = encoder(place, sharing, convolution, checkpointing, layers)
    found = []
    for places in (None, PLACES):
        model.zero_grad()
        rows = model(*inputs(), places=places).last_hidden_state.flatten(0, 1)[PLACES]
        (rows**3).sum().backward()
        found.append((rows.detach(), {name: p.grad for name, p in model.named_parameters()}))
    (whole, gradients), (part, own) = found
    torch.testing.assert_close(part, whole, rtol=1e-5, atol=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(own[name], gradient, rtol=1e-4, atol=1e-4, msg=name)


def test_other_places_are_zeros_and_their_last_layer_is_not_computed():
    model = encoder("post", "none", 0, False, 2)
    rows = []
    for layer in model.layers:
        layer.feed_forward.register_forward_hook(lambda _, given, __: rows.append(given[0].shape[:-1].numel()))
    states = model(*inputs(), places=PLACES).last_hidden_state
    others = torch.ones(27, dtype=torch.bool).index_fill(0, PLACES, False)
    assert rows == [25, len(PLACES)], "real tokens, then those asked for"
    assert states.shape == (3, 9, 16)
    assert not states.flatten(0, 1)[others].any()


def test_whoever_asks_for_all_states_gets_all_of_the_last_ones_too():
    model = encoder("pre", "none", 0, False, 2).eval()
    asked = model(*inputs(), places=PLACES, output_hidden_states=True)
    torch.testing.assert_close(asked.last_hidden_state, model(*inputs()).last_hidden_state)
    assert asked.hidden_states[-1] is asked.last_hidden_state
