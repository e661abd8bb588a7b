"""What layers have in common: which tensors there are, their gradients, and names that are stored once."""

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder
from bertctl.encoder.sharing import model_tensors

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
}
ATTENTION = 4 * (16 * 16 + 16) + 2 * 16  # with its norm
FEED_FORWARD = 16 * 32 + 32 + 32 * 16 + 16 + 2 * 16
IDS = torch.randint(5, 50, (2, 9), generator=torch.Generator().manual_seed(0))


def encoder(**changes):
    torch.manual_seed(0)
    return Encoder(EncoderConfig(**(SIZES | changes))).eval()


@pytest.mark.parametrize(
    ("sharing", "groups", "attentions", "feed_forwards"),
    [("none", 1, 5, 5), ("all", 1, 1, 1), ("all", 2, 2, 2), ("attention", 1, 1, 5), ("feed_forward", 3, 5, 3)],
)
def test_each_group_has_the_shared_part_once(sharing, groups, attentions, feed_forwards):
    made = encoder(layer_sharing=sharing, num_hidden_groups=groups)
    count = sum(p.numel() for p in made.layers.parameters())
    assert count == attentions * ATTENTION + feed_forwards * FEED_FORWARD
    assert sum(t.numel() for n, t in model_tensors(made).items() if n.startswith("layers.")) == count


def test_groups_are_those_of_albert():
    # five layers in two groups: int(i / (5 / 2)) is 0, 0, 0, 1, 1
    made = encoder(layer_sharing="all", num_hidden_groups=2)
    assert [made.layers[0] is layer for layer in made.layers] == [True, True, True, False, False]
    assert made.layers[3] is made.layers[4]
    assert {name.split(".")[1] for name in model_tensors(made) if name.startswith("layers.")} == {"0", "3"}


@pytest.mark.parametrize("sharing", ["all", "attention", "feed_forward"])
def test_a_shared_gradient_is_the_sum_over_the_layers(sharing):
    shared, apart = encoder(layer_sharing=sharing), encoder()
    apart.load_state_dict(shared.state_dict())  # the same weights, but every layer has its own
    outputs = [made(IDS).last_hidden_state for made in (shared, apart)]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        output.square().sum().backward()
    parts = {"all": ("attention", "feed_forward"), "attention": ("attention",), "feed_forward": ("feed_forward",)}
    for part in parts[sharing]:
        name = {"attention": "attention.query", "feed_forward": "feed_forward.up"}[part]
        total = sum(layer.get_submodule(name).weight.grad for layer in apart.layers)
        torch.testing.assert_close(shared.layers[2].get_submodule(name).weight.grad, total, atol=1e-5, rtol=1e-4)


def test_gradient_checkpointing_with_shared_layers_gives_the_same_gradients():
    made = encoder(layer_sharing="all").train()
    gradients = []
    for checkpointed in (False, True):
        made.gradient_checkpointing = checkpointed
        made.zero_grad()
        torch.manual_seed(11)
        made(IDS).last_hidden_state.square().sum().backward()
        gradients.append([p.grad.clone() for p in made.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_groups": 6, "layer_sharing": "all"}, "num_hidden_groups is 6, expected 1 to 5"),
        ({"num_hidden_groups": 2}, "nothing in common"),
        ({"layer_sharing": "some"}, "layer_sharing is 'some'"),
        ({"position_after_padding": True, "position": "rotary"}, "for learned positions, got rotary"),
    ],
)
def test_what_does_not_fit_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        encoder(**changes)
