"""Any combination of axes is saved and loads as it was, under a family's name where its published code computes it."""

import itertools
import json
import random

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.training.steps import describe
from bertctl.variants.hf import load_model, save_model

AXES = {
    "position": ("learned", "sinusoidal", "rotary", "none"),
    "relative_position": ("none", "bucketed", "disentangled"),
    "norm_place": ("post", "pre"),
    "feed_forward": ("mlp", "glu"),
    "attention": (("full",), ("local", "full"), ("local_global",), ("causal",), ("linear", "causal_linear")),
}
MORE = itertools.cycle(  # one of these beside each combination
    [
        {},
        {"norm": "rms"},
        {"use_bias": False},
        {"embedding_size": 8},
        {"layer_sharing": "attention"},
        {"label_transform": True, "pooling": "mean"},
        {"local_rope_theta": 500.0, "attention_window_tokens": 4},
        {"global_every_tokens": 3},
    ]
)
EVERYTHING = [
    dict(zip(AXES, values, strict=True)) | more
    for values, more in zip(itertools.product(*AXES.values()), MORE, strict=False)
    if values[1] == "none" or "linear" not in values[4]
]
COMBINATIONS = random.Random(0).sample(EVERYTHING, len(EVERYTHING) // 2)


def model_of(combination):
    config = EncoderConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=12,
        **({"relative_buckets": 8, "relative_max_distance": 10} | combination),
    )
    torch.manual_seed(0)
    return Model(config, {"masked_lm": 0, "sequence": 3}).eval()


def test_half_of_all_combinations_holds_every_pair():
    def pairs(combinations):
        return {(a, c[a], b, c[b]) for c in combinations for a, b in itertools.combinations(AXES, 2)}

    assert pairs(COMBINATIONS) == pairs(EVERYTHING)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("position", AXES["position"])
@torch.no_grad()
def test_every_combination_loads_as_it_was_saved(position, place, tmp_path):
    chosen = [c for c in COMBINATIONS if c["position"] == position and c["norm_place"] == AXES["norm_place"][place]]
    assert len(chosen) > 8
    ids = torch.arange(24).reshape(2, 12)
    mask = torch.arange(12)[None] < torch.tensor([[12], [7]])
    for number, combination in enumerate(chosen):
        model = model_of(combination)
        (tmp_path / str(number)).mkdir()
        save_model(tmp_path / str(number), model, None)
        assert json.loads((tmp_path / str(number) / "config.json").read_text())["model_type"] == "bertctl"
        loaded = load_model(tmp_path / str(number))
        assert loaded.model.config == model.config, combination
        assert (loaded.new_tensors, loaded.unused_tensors) == ([], [])
        before, after = (m(ids, mask).last_hidden_state for m in (model, loaded.model.eval()))
        assert torch.equal(before, after), combination
        assert torch.isfinite(before[mask]).all(), combination


def test_it_is_said_before_training_that_transformers_cannot_load_it():
    """By the line with which every stage starts, which is silent for a family that it can load."""
    assert describe(model_of({"norm_place": "pre"})).endswith("(model_type bertctl, which transformers cannot load)")
    plain = model_of({"relative_buckets": 32, "relative_max_distance": 128})
    assert describe(plain).endswith("cannot load)")  # two heads at once
    assert describe(Model(plain.config, {"masked_lm": 0})).endswith(" parameters")


def test_an_older_file_without_the_new_axes_means_what_it_did(tmp_path):
    model = model_of({"norm_place": "pre", "position": "rotary", "relative_buckets": 32, "relative_max_distance": 128})
    save_model(tmp_path, model, None)
    fields = json.loads((tmp_path / "config.json").read_text())
    new = ("attention", "attention_window_tokens", "global_every_tokens", "local_rope_theta", "skip_first_norm")
    new += ("relative_position", "relative_buckets", "relative_max_distance", "conv_kernel_size", "label_transform")
    old = {name: value for name, value in fields.items() if name not in new}
    assert len(fields) - len(old) == len(new)
    (tmp_path / "config.json").write_text(json.dumps(old))
    assert load_model(tmp_path).model.config == model.config
