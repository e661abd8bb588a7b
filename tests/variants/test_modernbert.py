"""What only ModernBERT has: two spellings of its config.json, texts of many windows, refusals."""

import dataclasses
import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.variants.hf import load_model
from bertctl.variants.modernbert import COMMON, from_hf, to_hf
from bertctl.variants.resize import resized

RELEASED = {  # the fields of the released base model that say what it computes, at a tiny size
    "attention_bias": False,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_pooling": "mean",
    "decoder_bias": True,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "layer_norm_eps": 1e-05,
    "local_attention": 8,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "mlp_bias": False,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 2,
    "num_hidden_layers": 5,
    "pad_token_id": 3,
    "vocab_size": 61,
}


def config(**changes):
    sizes = {name: RELEASED[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "pad_token_id")}
    sizes |= {"num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 512}
    return EncoderConfig(**(COMMON | sizes | {"attention_window_tokens": 8} | changes))


def test_the_released_spelling_and_that_of_transformers_5_are_one_config():
    assert from_hf(RELEASED) == config()
    written = transformers.ModernBertConfig(**RELEASED).to_dict()
    assert "layer_types" in written
    assert "global_rope_theta" not in written
    assert from_hf(written) == config()
    assert from_hf(to_hf(config())) == config()


@torch.no_grad()
def test_windows_in_a_long_text_are_those_of_transformers(tmp_path):
    """400 tokens are computed in blocks."""
    torch.manual_seed(0)
    theirs = transformers.ModernBertModel(transformers.ModernBertConfig(**RELEASED | {"initializer_range": 0.2})).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path).model.eval()
    ids = torch.randint(4, 61, (2, 400))
    mask = torch.arange(400)[None] < torch.tensor([[400], [250]])
    expected = theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    assert (ours(ids, mask).last_hidden_state - expected)[mask].abs().max().item() <= 1e-5


@torch.no_grad()
def test_another_base_at_a_longer_length_is_that_of_transformers(tmp_path):
    """As its authors went from 1,024 tokens to 8,192: the same weights, a larger base in the layers that see all."""
    torch.manual_seed(0)
    made = RELEASED | {"initializer_range": 0.2}
    short = transformers.ModernBertModel(
        transformers.ModernBertConfig(**made | {"max_position_embeddings": 32, "global_rope_theta": 10_000.0})
    )
    short.save_pretrained(tmp_path)
    theirs = transformers.ModernBertModel(transformers.ModernBertConfig(**made)).eval()
    theirs.load_state_dict(short.state_dict())
    source = load_model(tmp_path).model
    longer = dataclasses.replace(source.config, max_position_embeddings=512, rope_theta=160_000.0)
    ours = resized(source, longer, {}, seed=0)[0].eval()
    ids = torch.randint(4, 61, (2, 300))
    expected = theirs(input_ids=ids).last_hidden_state
    assert (ours(ids).last_hidden_state - expected).abs().max().item() <= 1e-5
    longer = dataclasses.replace(longer, rope_theta=10_000.0)
    other = resized(source, longer, {}, seed=0)[0].eval()
    assert (other(ids).last_hidden_state - expected).abs().max().item() > 0.1


@pytest.mark.parametrize("fault", ["missing", "cut"])
def test_a_fused_matrix_that_does_not_fit_is_named_once_with_its_whole_shape(fault, tmp_path):
    transformers.ModernBertModel(transformers.ModernBertConfig(**RELEASED)).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    whole = weights.pop("layers.1.attn.Wqkv.weight")
    if fault == "cut":
        weights["layers.1.attn.Wqkv.weight"] = whole[:93].clone()
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(BertctlError) as caught:
        load_model(tmp_path)
    got = "no such tensor" if fault == "missing" else "shape (93, 32)"
    assert caught.value.problems == (f"{tmp_path}: layers.1.attn.Wqkv.weight: got {got}, expected shape (96, 32)",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"decoder_bias": False}, "decoder_bias is false"),
        ({"norm_bias": True}, "norm_bias is True"),
        ({"classifier_activation": "relu"}, "classifier_activation is 'relu'"),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "layer_types holds 'chunked_attention'"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type is 'yarn'"),
        ({"local_attention": 7}, "even number"),
    ],
)
def test_what_this_encoder_cannot_tell_apart_is_refused(changes, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(RELEASED | changes))
    with pytest.raises(BertctlError, match=words):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention": ("local",)},
        {"attention": ("full", "full", "local")},
        {"attention": ("full", "linear")},
        {"pooling": "max"},
        {"norm": "rms"},
        {"feed_forward": "mlp"},
        {"skip_first_norm": False},
        {"position": "learned"},
        {"relative_position": "bucketed"},
    ],
)
def test_what_its_code_cannot_compute_is_not_written_as_modernbert(changes):
    changed = config(**changes)
    fields = to_hf(changed)
    assert fields is None or from_hf(fields) != changed
