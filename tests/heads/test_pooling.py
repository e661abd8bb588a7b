"""Pooling: over real tokens only, chosen by config, kept on disk."""

import json

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.heads.pooling import POOLINGS, AttentionPooler
from bertctl.variants.hf import load_model, save_model

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
}


def test_poolings_are_their_definitions_over_real_tokens():
    hidden = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
    for row, length in enumerate((3, 1)):
        real = hidden[row, :length]
        for name, expected in (("mean", real.mean(0)), ("max", real.max(0).values), ("cls", real[0])):
            torch.testing.assert_close(POOLINGS[name](hidden, mask)[row], expected)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_row_without_a_real_token_gives_zeros_and_no_gradient(pooling):
    hidden = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pooled = POOLINGS[pooling](hidden, torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.bool))
    pooled.sum().backward()
    assert pooled[1].tolist() == [0.0, 0.0, 0.0]
    assert hidden.grad[1].abs().max() == 0
    assert hidden.grad[0].abs().max() > 0


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_padding_does_not_change_what_a_head_says(pooling):
    model = Model(EncoderConfig(**SIZES, pooling=pooling), {"sequence": 3}).eval()
    ids = torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(10)[None].expand(2, 10) < 6
    padded = torch.nn.functional.pad(ids, (0, 4), value=9)
    torch.testing.assert_close(
        model.logits("sequence", model(padded, mask)), model.logits("sequence", model(ids)), atol=1e-5, rtol=1e-5
    )
    assert (model.pooler is not None) == (pooling == "cls")


def test_pooling_is_kept_and_can_be_changed_on_loading(tmp_path):
    save_model(tmp_path, Model(EncoderConfig(**SIZES, pooling="mean"), {"sequence": 3}), None)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bertctl"
    assert load_model(tmp_path).model.config.pooling == "mean"
    changed = load_model(tmp_path, pooling="cls")
    assert changed.new_tensors == ["pooler.dense.weight", "pooler.dense.bias"]


def test_learned_weights_are_a_softmax_over_real_tokens():
    torch.manual_seed(0)
    pooler = AttentionPooler(3)
    hidden, mask = torch.randn(2, 4, 3), torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)
    real = hidden[0, :3]
    scores = torch.tanh(real @ pooler.project.weight.T + pooler.project.bias) @ pooler.score.weight[0]
    pooled = pooler(hidden, mask)
    torch.testing.assert_close(pooled[0], scores.softmax(0) @ real)
    assert pooled[1].tolist() == [0.0, 0.0, 0.0]


def test_learned_pooling_does_not_begin_with_the_weights_of_another_pooler(tmp_path):
    save_model(tmp_path, Model(EncoderConfig(**SIZES), {"sequence": 2}), None)
    loaded = load_model(tmp_path, pooling="attention")
    assert {name for name in loaded.new_tensors if name.startswith("pooler.")} == {
        "pooler.project.weight",
        "pooler.project.bias",
        "pooler.score.weight",
    }
