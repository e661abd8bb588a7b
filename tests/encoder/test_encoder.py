"""The encoder's axes, its numbering of layers, its independence of padding, its memory-saving mode."""

import itertools
import math

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder
from bertctl.encoder.positions import RotaryPosition, SinusoidalPosition

AXES = list(
    itertools.product(
        ("learned", "sinusoidal", "rotary", "none"), ("layer", "rms"), ("post", "pre"), ("mlp", "glu"), (True, False)
    )
)


def config(**changes):
    fields = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 32,
        "max_position_embeddings": 24,
    }
    return EncoderConfig(**(fields | changes))


def ids(rows=2, tokens=9, seed=0):
    return torch.randint(5, 50, (rows, tokens), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("position", "norm", "place", "feed_forward", "bias"), AXES)
def test_padding_changes_nothing(position, norm, place, feed_forward, bias):
    encoder = Encoder(config(position=position, norm=norm, norm_place=place, feed_forward=feed_forward, use_bias=bias))
    encoder.eval()
    short = ids(tokens=6)
    padded = torch.cat([short, ids(tokens=5, seed=1)], dim=1)
    mask = torch.arange(11)[None, :].expand(2, 11) < 6
    torch.testing.assert_close(
        encoder(padded, mask).last_hidden_state[:, :6], encoder(short).last_hidden_state, atol=1e-5, rtol=1e-5
    )


ATTENTION = (("local",), ("local_global", "full"), ("linear",), ("causal", "causal_linear"), ("full", "local", "local"))
MIXES = [
    *itertools.product(ATTENTION, ("learned", "rotary", "none"), ("none",), ("pre", "post")),
    *itertools.product(
        (a for a in ATTENTION if "linear" not in str(a)), ("rotary", "none"), ("bucketed", "disentangled"), ("pre",)
    ),
]


@pytest.mark.parametrize(("attention", "position", "relative", "place"), MIXES)
def test_padding_changes_nothing_for_any_attention(attention, position, relative, place):
    encoder = Encoder(
        config(
            attention=attention,
            attention_window_tokens=4,
            position=position,
            relative_position=relative,
            norm_place=place,
            num_hidden_layers=3,
            initializer_range=0.3,
        )
    ).eval()
    short = ids(tokens=6)
    padded = torch.cat([short, ids(tokens=15, seed=1)], dim=1)
    mask = torch.arange(21)[None, :].expand(2, 21) < 6
    alone = encoder(short).last_hidden_state
    torch.testing.assert_close(encoder(padded, mask).last_hidden_state[:, :6], alone, atol=2e-5, rtol=1e-5)
    asked = encoder(short, output_attentions=True)
    torch.testing.assert_close(asked.last_hidden_state, alone, atol=2e-5, rtol=1e-5)
    rows = torch.stack(asked.attentions).sum(dim=-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))


@pytest.mark.parametrize("attention", [("causal",), ("causal_linear",), ("causal_linear", "causal")])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "none"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_no_position_sees_its_future(attention, position, place):
    encoder = Encoder(config(attention=attention, position=position, norm_place=place, initializer_range=0.3)).eval()
    tokens, other = ids(tokens=11), ids(tokens=11, seed=1)
    whole = encoder(tokens).last_hidden_state
    for t in (0, 4, 9):
        changed = encoder(torch.cat([tokens[:, : t + 1], other[:, t + 1 :]], dim=1)).last_hidden_state
        torch.testing.assert_close(changed[:, : t + 1], whole[:, : t + 1], atol=2e-5, rtol=1e-5)
        assert not torch.allclose(changed[:, t + 1 :], whole[:, t + 1 :], atol=1e-2)
    words = encoder.embeddings.word.weight
    distinct = torch.arange(5, 16)[None]
    (gradient,) = torch.autograd.grad(encoder(distinct).last_hidden_state[0, 4].sin().sum(), words)
    assert (gradient[5 + 5 :] == 0).all(), "a gradient reached a later token"
    assert (gradient[5 : 5 + 5].abs().sum(dim=-1) > 0).all()


def test_a_window_and_its_global_tokens_see_what_the_pattern_says():
    tokens = ids(rows=1, tokens=20)
    for kind, every, seen in (("local", 0, {8, 9, 10, 11, 12}), ("local_global", 7, {0, 7, 8, 9, 10, 11, 12, 14})):
        encoder = Encoder(
            config(
                attention=(kind,),
                attention_window_tokens=4,
                global_every_tokens=every,
                num_hidden_layers=1,
                position="none",
            )
        ).eval()
        weights = encoder(tokens, output_attentions=True).attentions[0]
        assert set(weights[0, 0, 10].nonzero().flatten().tolist()) == seen
        every_token = set(range(20)) if every else {0, 1, 2}
        assert set(weights[0, 0, 0].nonzero().flatten().tolist()) == every_token


def test_layers_take_turns():
    encoder = Encoder(config(num_hidden_layers=7, attention=("full", "local", "local")))
    assert [pattern.kind for pattern in encoder.patterns] == ["full", "local", "local"] * 2 + ["full"]
    assert config(num_hidden_layers=4, attention=["full", "local", "full", "local", "local"]).attention == (
        "full",
        "local",
    )
    assert config(num_hidden_layers=2, attention=("full", "full", "local")) == config()


def test_local_layers_may_turn_faster():
    torch.manual_seed(0)
    both = config(position="rotary", attention=("full", "local"), rope_theta=160_000.0, local_rope_theta=100.0)
    encoder = Encoder(both)
    one = Encoder(config(position="rotary", rope_theta=100.0))
    q = torch.randn(1, 4, 9, 4)
    local, everywhere = encoder.position.rotate(q, q, True)[0], encoder.position.rotate(q, q, False)[0]
    assert torch.equal(local, one.position.rotate(q, q, True)[0])
    assert not torch.allclose(local, everywhere)


def test_the_first_norm_can_be_left_out():
    encoder = Encoder(config(norm_place="pre", skip_first_norm=True))
    assert [isinstance(layer.attention_norm, torch.nn.Identity) for layer in encoder.layers] == [True, False]


def test_without_positions_order_is_unknown_and_with_them_it_is_not():
    tokens = ids()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    for position in ("none", "learned", "sinusoidal", "rotary"):
        torch.manual_seed(0)
        encoder = Encoder(config(position=position)).eval()
        with torch.no_grad():
            difference = (
                (encoder(tokens[:, order]).last_hidden_state - encoder(tokens).last_hidden_state[:, order]).abs().max()
            )
        assert (difference < 1e-5) == (position == "none"), position


def test_layers_are_numbered_from_the_embeddings_to_the_output():
    for place in ("pre", "post"):
        encoder = Encoder(config(norm_place=place)).eval()
        output = encoder(ids(), output_hidden_states=True, output_attentions=True)
        assert len(output.hidden_states) == 3
        assert torch.equal(output.hidden_states[2], output.last_hidden_state)
        embedded = encoder.embeddings(ids(), None, encoder.position)
        assert torch.equal(output.hidden_states[0], embedded)
        assert [w.shape for w in output.attentions] == [(2, 4, 9, 9)] * 2


def test_asking_for_attention_does_not_change_the_output():
    encoder = Encoder(config()).eval()
    mask = torch.arange(9)[None, :].expand(2, 9) < 7
    torch.testing.assert_close(
        encoder(ids(), mask, output_attentions=True).last_hidden_state, encoder(ids(), mask).last_hidden_state
    )


def test_gradient_checkpointing_gives_the_same_gradients_with_dropout():
    encoder = Encoder(config()).train()
    gradients = []
    for checkpointed in (False, True):
        encoder.gradient_checkpointing = checkpointed
        encoder.zero_grad()
        torch.manual_seed(11)
        encoder(ids()).last_hidden_state.square().sum().backward()
        gradients.append([p.grad.clone() for p in encoder.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert any(a.abs().max() > 0 for a in gradients[0])


def test_rotary_scores_depend_on_distance_only():
    rotary = RotaryPosition(config())
    q, k = torch.randn(2, 1, 1, 1, 4, generator=torch.Generator().manual_seed(5)).expand(2, 1, 1, 20, 4)
    q, k = rotary.rotate(q, k, local=False)
    scores = (q @ k.transpose(-2, -1))[0, 0]
    for distance in range(-5, 6):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=1e-5)


def test_sinusoidal_table_is_the_formula():
    table = SinusoidalPosition(config(hidden_size=16)).table
    for place, i in ((0, 0), (3, 1), (23, 7)):
        angle = place / 10_000 ** (2 * i / 16)
        assert table[place, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[place, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_places_after_the_padding_id_read_the_later_rows():
    made = Encoder(config(position_after_padding=True, pad_token_id=2)).eval()
    assert made.position.table.weight.shape == (24 + 3, 16)
    plain = Encoder(config(pad_token_id=2)).eval()
    state = made.state_dict()
    state["position.table.weight"] = state["position.table.weight"][3:]
    plain.load_state_dict(state)
    longest = ids(tokens=24)
    assert torch.equal(made(longest).last_hidden_state, plain(longest).last_hidden_state)


def test_the_first_transformer_is_that_of_torch():
    """Against torch.nn.TransformerEncoder over word * sqrt(E) + sines: relu, post-norm, no norm before."""
    sizes = {"position": "sinusoidal", "embedding_norm": False, "scale_embedding": True, "hidden_act": "relu"}
    ours = Encoder(config(**sizes, type_vocab_size=0, layer_norm_eps=1e-6, initializer_range=0.25)).eval()
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, activation="relu", layer_norm_eps=1e-6, batch_first=True)
    theirs = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for mine, published in zip(ours.layers, theirs.layers, strict=True):
        query, key, value = mine.attention.query, mine.attention.key, mine.attention.value
        state = {
            "self_attn.in_proj_weight": torch.cat([query.weight, key.weight, value.weight]),
            "self_attn.in_proj_bias": torch.cat([query.bias, key.bias, value.bias]),
        }
        pairs = [(mine.attention.output, "self_attn.out_proj"), (mine.attention_norm, "norm1")]
        pairs += [(mine.feed_forward.up, "linear1"), (mine.feed_forward.down, "linear2")]
        for part, name in [*pairs, (mine.feed_forward_norm, "norm2")]:
            state |= {f"{name}.weight": part.weight, f"{name}.bias": part.bias}
        published.load_state_dict(state)
    tokens, mask = ids(), torch.arange(9)[None, :] < torch.tensor([[9], [4]])
    rates = 10_000 ** (-torch.arange(0, 16, 2) / 16)
    angles = torch.arange(9)[:, None] * rates
    sines = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    embedded = ours.embeddings.word.weight[tokens] * 4.0 + sines
    with torch.no_grad():
        expected = theirs(embedded, src_key_padding_mask=~mask)
        got = ours(tokens, mask).last_hidden_state
    assert (got - expected)[mask].abs().max().item() <= 1e-5
    assert expected.abs().max().item() > 0.5
    assert sum(p.numel() for p in ours.layers.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_fresh_weights_follow_the_table():
    encoder = Encoder(config(hidden_size=64, vocab_size=2000))
    words = encoder.embeddings.word.weight
    assert words.abs().max() <= 0.04
    # a normal distribution cut at two standard deviations has 0.8796 of its standard deviation left
    assert words.std().item() == pytest.approx(0.02 * 0.8796, rel=0.02)
    assert (encoder.layers[0].attention.query.bias == 0).all()
    assert (encoder.embeddings.norm.weight == 1).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 18}, "num_attention_heads"),
        ({"position": "rotary", "hidden_size": 12}, "even head size"),
        ({"norm_place": "middle"}, "norm_place"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"hidden_size": "x"}, "hidden_size is 'x', expected a whole number"),
        ({"attention": ("full", "window")}, "attention holds 'window'"),
        ({"attention": ()}, "attention holds nothing"),
        ({"attention_window_tokens": 5}, "even number"),
        ({"global_every_tokens": -1}, "0 or more"),
        ({"skip_first_norm": True}, "norm_place post"),
        ({"relative_position": "bucketed", "attention": ("linear",)}, "linear attention has none"),
        ({"relative_position": "bucketed", "relative_buckets": 3}, "relative_buckets"),
        ({"relative_position": "disentangled", "relative_buckets": 256, "relative_max_distance": 20}, "more than 129"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers is 2.5, expected a whole number"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        config(**changes)


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match="24"):
        Encoder(config())(ids(tokens=25))
