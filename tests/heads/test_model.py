"""What an encoder with its heads does in training and evaluation."""

from dataclasses import replace

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import EncoderOutput
from bertctl.heads.model import Model

SMALL = EncoderConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=24,
    hidden_dropout_prob=0.5,
)
IDS = torch.tensor([[1, 5, 9, 2]])


def test_an_encoder_of_which_nothing_is_trained_has_no_dropout_but_its_head_has():
    model = Model(SMALL, {"sequence": 2}).train()
    assert not torch.equal(model(IDS).last_hidden_state, model(IDS).last_hidden_state)
    model.encoder.requires_grad_(False)
    model.train()
    output = model(IDS)
    assert torch.equal(output.last_hidden_state, model(IDS).last_hidden_state)
    assert not torch.equal(model.logits("sequence", output), model.logits("sequence", output))
    model.encoder.layers[1].feed_forward_norm.weight.requires_grad_(True)
    model.train()
    assert not torch.equal(model(IDS).last_hidden_state, model(IDS).last_hidden_state)


def test_what_is_known_is_not_computed_unless_more_is_asked_for():
    model = Model(SMALL, {"sequence": 2}).eval()
    known = EncoderOutput(torch.ones(1, 1, 16))
    model.recall = lambda ids, mask, segments: known if ids[0, 0] == 1 else None
    assert model(IDS) is known
    assert model(IDS + 1).last_hidden_state.shape == (1, 4, 16)
    assert len(model(IDS, output_hidden_states=True).hidden_states) == 3


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_read_gives_the_logits_of_the_whole_output(pooling):
    model = Model(replace(SMALL, pooling=pooling), {"sequence": 3, "token": 5, "embedding": 0}).eval()
    ids = torch.randint(1, 30, (4, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(7) < torch.tensor([[7], [3], [5], [7]])
    for head in model.head_outputs:
        torch.testing.assert_close(model.read(head, ids, mask), model.logits(head, model(ids, mask)))
        assert (model.first_tokens(head, ids) is not None) == (pooling == "cls" and head != "token")


@pytest.mark.parametrize(
    ("heads", "places"),
    [
        ({"masked_lm": 0}, [2, 9]),
        ({"masked_lm": 0, "sentence_pair": 2}, [2, 9, 0, 4, 8]),
        ({"sentence_pair": 2, "sequence": 3}, [0, 4, 8]),
        ({"masked_lm": 0, "token": 3}, None),
        ({}, None),
    ],
)
def test_places_are_those_that_any_head_reads_and_none_twice(heads, places):
    found = Model(SMALL, heads).places_read(torch.zeros(3, 4, dtype=torch.int64), torch.tensor([2, 9]))
    assert (None if found is None else found.tolist()) == places


IMAGES = EncoderConfig(
    vocab_size=0,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    type_vocab_size=0,
    embedding_norm=False,
    position="grid",
    norm_place="pre",
    image_size=12,
    patch_size=4,
    num_channels=1,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("shape", [(12, 12), (8, 17)])
def test_of_an_image_the_last_layer_is_computed_for_the_class_token_alone_if_nothing_else_is_read(pooling, shape):
    torch.manual_seed(0)
    model = Model(replace(IMAGES, pooling=pooling), {"image": 3})
    pixels, rows, found = torch.randn(5, 1, *shape), [], []
    tokens = 1 + (shape[0] // 4) * (shape[1] // 4)
    for layer in model.encoder.layers:
        layer.feed_forward.register_forward_hook(lambda _, given, __: rows.append(given[0].shape[:-1].numel()))
    for read in (model.read, lambda head, images: model.logits(head, model(images))):
        model.zero_grad()
        logits = read("image", pixels)
        (logits**3).sum().backward()
        found.append((logits.detach(), {name: p.grad for name, p in model.named_parameters()}))
    assert rows == [5 * tokens, 5 if pooling == "cls" else 5 * tokens, 5 * tokens, 5 * tokens]
    torch.testing.assert_close(found[0][0], found[1][0])
    for name, gradient in found[1][1].items():
        torch.testing.assert_close(found[0][1][name], gradient, rtol=1e-4, atol=1e-6, msg=name)
