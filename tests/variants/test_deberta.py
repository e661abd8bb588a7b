"""What only DeBERTa has: two spellings of the masked-LM head, the convolution at the ends of a text, refusals."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder
from bertctl.errors import BertctlError
from bertctl.variants.deberta import COMMON, from_hf, to_hf
from bertctl.variants.hf import load_model

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
RELEASED = {  # the fields of the released third version that say what it computes, at a tiny size
    **SIZES,
    "model_type": "deberta-v2",
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "pooler_dropout": 0,
    "pooler_hidden_act": "gelu",
    "type_vocab_size": 0,
}


def config(**changes):
    return EncoderConfig(**(COMMON | SIZES | {"relative_buckets": 8, "relative_max_distance": 64} | changes))


def test_the_released_fields_are_read():
    assert from_hf(RELEASED) == config()
    assert from_hf(RELEASED | {"pos_att_type": ["p2c", "c2p"], "max_relative_positions": 64}) == config()
    assert from_hf(to_hf(config())) == config()
    assert from_hf(RELEASED | {"conv_kernel_size": 3, "conv_act": "gelu"}) == config(conv_kernel_size=3)


@torch.no_grad()
def test_both_spellings_of_the_masked_lm_head_are_read(tmp_path):
    """transformers' older class calls it cls.predictions and computes the same."""
    torch.manual_seed(0)
    fields = {name: value for name, value in RELEASED.items() if name != "model_type"} | {"initializer_range": 0.2}
    older = transformers.DebertaV2ForMaskedLM(transformers.DebertaV2Config(**fields, legacy=True)).eval()
    older.save_pretrained(tmp_path)
    assert any(name.startswith("cls.predictions") for name in load_file(tmp_path / "model.safetensors"))
    loaded = load_model(tmp_path)
    assert (loaded.new_tensors, loaded.unused_tensors) == ([], [])
    ids = torch.randint(4, 61, (2, 40))
    ours = loaded.model.eval()
    logits = ours.masked_logits(ours(ids), torch.arange(80)).unflatten(0, (2, 40))
    assert (logits - older(input_ids=ids).logits).abs().max().item() <= 1e-5


@torch.no_grad()
def test_padding_does_not_reach_the_last_word_through_the_convolution():
    torch.manual_seed(0)
    encoder = Encoder(config(conv_kernel_size=5, initializer_range=0.2)).eval()
    ids = torch.randint(4, 61, (1, 9))
    padded = torch.cat([ids, torch.randint(4, 61, (1, 6))], dim=1)
    alone = encoder(ids).last_hidden_state
    beside = encoder(padded, torch.arange(15)[None] < 9).last_hidden_state[:, :9]
    torch.testing.assert_close(beside, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"relative_attention": False}, "relative_attention is False"),
        ({"share_att_key": False}, "share_att_key is False"),
        ({"norm_rel_ebd": "none"}, "norm_rel_ebd is 'none'"),
        ({"pos_att_type": "c2p"}, r"pos_att_type is \['c2p'\]"),
        ({"position_buckets": -1}, "position_buckets is -1"),
        ({"conv_kernel_size": 3, "conv_act": "tanh"}, "conv_act is 'tanh'"),
        ({"conv_kernel_size": 3, "conv_act": "gelu", "conv_groups": 2}, "conv_groups is 2"),
        ({"conv_kernel_size": 4, "conv_act": "gelu"}, "odd number"),
    ],
)
def test_what_this_encoder_cannot_compute_is_refused(changes, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(RELEASED | changes))
    save_file({"x": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(BertctlError, match=words):
        load_model(tmp_path)
