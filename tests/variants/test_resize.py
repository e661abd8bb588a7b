"""A wider model computes what the narrower one did; layers and places come from where they are said to."""

import dataclasses
import math

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.variants.resize import even_layers, layer_sources, of_own_kind, resized, shares, stretched

SMALL = EncoderConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.3,
)
DOUBLE = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 72}
AXES = [
    {},
    {"norm_place": "pre", "position": "rotary", "norm": "rms", "feed_forward": "glu", "use_bias": False},
    {"embedding_size": 8, "pooling": "mean"},
    {"relative_position": "bucketed", "relative_buckets": 8, "relative_max_distance": 9, "label_transform": True},
    {
        "relative_position": "disentangled",
        "relative_buckets": 4,
        "relative_max_distance": 9,
        "conv_kernel_size": 3,
        "attention": ("full", "local"),
        "attention_window_tokens": 4,
    },
]
HEADS = {"masked_lm": 0, "sentence_pair": 2}


def outputs(model):
    ids = torch.arange(1, 25).reshape(2, 12)
    mask = torch.arange(12)[None, :] < torch.tensor([[12], [7]])
    with torch.no_grad():
        output = model.eval()(ids, mask)
        return model.masked_logits(output, torch.tensor([1, 3, 14])), model.logits("sentence_pair", output)


@pytest.mark.parametrize("axes", AXES)
def test_twice_the_width_computes_the_same(axes):
    torch.manual_seed(0)
    small = dataclasses.replace(SMALL, **axes)
    source = Model(small, HEADS)
    for parameter in source.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    wide = {**DOUBLE} | ({"embedding_size": 16} if small.embedding_size else {})
    model, fresh = resized(source, dataclasses.replace(small, **wide), HEADS, seed=1)
    assert fresh == []
    for mine, theirs in zip(outputs(model), outputs(source), strict=True):
        assert (mine - theirs).abs().max() < 2e-5
        assert theirs.abs().max() > 0.1


def test_copies_learn_to_differ():
    torch.manual_seed(0)
    model, _ = resized(Model(SMALL, HEADS), dataclasses.replace(SMALL, **DOUBLE), HEADS, seed=1)
    model(torch.arange(12)[None]).last_hidden_state[0, 0, :5].sum().backward()
    gradient = model.encoder.layers[0].feed_forward.up.weight.grad
    assert not torch.allclose(gradient[:24], gradient[24:48])


def test_shares_of_the_copies_of_a_unit_add_up_to_one():
    share = shares(4, 10, torch.Generator().manual_seed(0))
    assert [float(share[i::4].sum()) for i in range(4)] == pytest.approx([1.0] * 4)
    assert torch.equal(shares(4, 3, torch.Generator().manual_seed(0)), torch.ones(3))


def test_a_deeper_model_repeats_the_stack_and_a_shallower_one_skips_evenly():
    source = Model(SMALL, {})
    deep, _ = resized(source, dataclasses.replace(SMALL, num_hidden_layers=4), {}, seed=0)
    for layer, twin in zip(deep.encoder.layers[2:], source.encoder.layers, strict=True):
        assert torch.equal(layer.attention.query.weight, twin.attention.query.weight)
    again, _ = resized(deep, SMALL, {}, seed=0)
    assert torch.equal(again.encoder.layers[1].feed_forward.up.weight, source.encoder.layers[1].feed_forward.up.weight)


WINDOWS = {"attention": ("full", "local", "local")}


@pytest.mark.parametrize(
    ("attention", "old", "new", "expected"),
    [
        (("full",), 2, 5, [0, 1, 0, 1, 0]),
        (("full",), 12, 6, [0, 2, 4, 7, 9, 11]),
        (("full", "local", "local"), 12, 6, [0, 2, 4, 6, 8, 11]),  # 7 has a window, 9 has none
        (("full", "local", "local"), 22, 11, [0, 2, 4, 6, 8, 10, 12, 14, 17, 18, 20]),
        (("full", "local"), 2, 5, [0, 1, 0, 1, 0]),
        (("full", "local", "local"), 4, 6, [0, 1, 2, 3, 1, 1]),
    ],
)
def test_layers_start_from_the_nearest_of_their_own_kind(attention, old, new, expected):
    before, after = (dataclasses.replace(SMALL, attention=attention, num_hidden_layers=n) for n in (old, new))
    found = layer_sources(before, after)
    assert found == expected
    period = len(attention)
    assert [attention[place % period] for place in found] == [attention[layer % period] for layer in range(new)]


def test_a_layer_whose_kind_is_new_starts_from_the_place_that_it_has():
    full, local = (dataclasses.replace(SMALL, attention=(kind,), num_hidden_layers=4) for kind in ("full", "local"))
    assert of_own_kind([1, 4], full, dataclasses.replace(local, num_hidden_layers=2)) == [1, 4]


def test_a_shallower_model_takes_layers_of_its_own_kinds():
    source = Model(dataclasses.replace(SMALL, **WINDOWS, num_hidden_layers=8), {})
    small, fresh = resized(source, dataclasses.replace(SMALL, **WINDOWS, num_hidden_layers=4), {}, seed=0)
    assert fresh == []
    for layer, number in zip(small.encoder.layers, (1, 3, 6, 7), strict=True):
        assert torch.equal(layer.attention.query.weight, source.encoder.layers[number - 1].attention.query.weight)


def test_longer_tables_keep_what_there_was():
    table = torch.randn(12, 16)
    tiled = stretched(table, 30, "tile")
    assert torch.equal(tiled[:12], table)
    assert torch.equal(tiled[12:24], table)
    spread = stretched(table, 23, "interpolate")  # twice as dense: every other place is an old one
    assert torch.allclose(spread[::2], table, atol=1e-6)
    assert torch.allclose(spread[1], (table[0] + table[1]) / 2, atol=1e-6)
    assert torch.equal(stretched(table, 5, "interpolate"), table[:5])


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
def test_a_stretched_model_computes_the_same_for_short_inputs(position):
    torch.manual_seed(0)
    source = Model(dataclasses.replace(SMALL, position=position), HEADS)
    longer = dataclasses.replace(source.config, max_position_embeddings=50)
    model, fresh = resized(source, longer, HEADS, seed=0)
    assert fresh == []
    for mine, theirs in zip(outputs(model), outputs(source), strict=True):
        assert torch.equal(mine, theirs)
    assert model(torch.ones(1, 50, dtype=torch.long)).last_hidden_state.shape == (1, 50, 16)


def test_a_new_base_of_rotary_positions_changes_the_angles_and_no_weight():
    """Place times base^(-2i / D), up to the new length; layers with a window keep the base of their own."""
    torch.manual_seed(0)
    short = dataclasses.replace(SMALL, position="rotary", attention=("full", "local"), local_rope_theta=100.0)
    source = Model(short, HEADS)
    longer = dataclasses.replace(short, max_position_embeddings=50, rope_theta=160_000.0)
    model, fresh = resized(source, longer, HEADS, seed=0)
    have = source.state_dict()
    assert fresh == []
    assert all(torch.equal(tensor, have[name]) for name, tensor in model.state_dict().items())
    for name, base in (("", 160_000.0), ("local_", 100.0)):
        for part in (math.cos, math.sin):
            table = model.encoder.position.get_buffer(f"{name}{part.__name__}")
            expected = [[part(place * base ** (-2 * i / 8)) for i in (0, 1, 2, 3)] * 2 for place in range(50)]
            torch.testing.assert_close(table, torch.tensor(expected), atol=1e-6, rtol=0)
    assert not torch.allclose(outputs(model)[0], outputs(source)[0], atol=1e-2)


def test_a_narrower_model_has_the_first_units():
    torch.manual_seed(0)
    source = Model(SMALL, HEADS)
    narrow = dataclasses.replace(SMALL, hidden_size=8, num_attention_heads=1, intermediate_size=10)
    model, fresh = resized(source, narrow, HEADS, seed=0)
    have = source.state_dict()
    assert fresh == []
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, have[name][tuple(slice(n) for n in tensor.shape)]), name


@pytest.mark.parametrize("how", ["tile", "interpolate"])
def test_rows_before_the_first_place_are_kept_and_not_stretched(how):
    torch.manual_seed(0)
    small = dataclasses.replace(SMALL, position_after_padding=True, pad_token_id=1)
    source = Model(small, {})
    wanted = dataclasses.replace(small, max_position_embeddings=2 * small.max_position_embeddings - 1)
    model, _ = resized(source, wanted, {}, seed=0, stretch=how)
    old, new = source.encoder.position.table.weight, model.encoder.position.table.weight
    assert len(new) == wanted.max_position_embeddings + 2
    assert torch.equal(new[:3], old[:3])
    twin = new[2 + small.max_position_embeddings :] if how == "tile" else new[2::2]
    torch.testing.assert_close(twin, old[2 : 2 + len(twin)])


def test_what_is_no_size_is_refused_all_at_once():
    other = dataclasses.replace(SMALL, norm="rms", hidden_act="relu", num_attention_heads=4)
    with pytest.raises(BertctlError) as refused:
        resized(Model(SMALL, {}), other, {}, seed=0)
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "encoder.hidden_act",
        "encoder.norm",
        "encoder.num_attention_heads",
    ]


def test_heads_that_the_source_lacks_are_named():
    _, fresh = resized(Model(SMALL, {"masked_lm": 0}), SMALL, HEADS, seed=0)
    assert {name.split(".")[0] for name in fresh} == {"pooler", "heads"}


@pytest.mark.parametrize(
    ("teacher", "student", "expected"),
    [
        (12, 6, [1, 3, 5, 8, 10, 12]),  # 0, 2, 4, 7, 9, 11 in transformers' scripts/extract_distilbert.py
        (4, 2, [1, 4]),
        (2, 1, [1]),
        (3, 3, [1, 2, 3]),
        (24, 3, [1, 12, 24]),
    ],
)
def test_layers_are_spread_evenly(teacher, student, expected):
    found = even_layers(teacher, student)
    assert all(abs(a - b) <= 1 for a, b in zip(found, expected, strict=True))
    assert found[-1] == expected[-1]
    if teacher != 24:  # 12.5 may go either way
        assert found == expected
