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
