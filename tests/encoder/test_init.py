"""Fresh weights, measured tensor by tensor against the formulas of each scheme, scipy and transformers."""

import math

import pytest
import torch
from scipy.stats import truncnorm
from torch import nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder
from bertctl.encoder.init import Draw, NothingDrawn, fans, fresh_values, initialise
from bertctl.heads.model import Model
from bertctl.variants.config import EncoderSection, encoder_config

WIDTH, INNER, WORDS, LAYERS, S = 64, 160, 300, 3, 0.05
KEPT = truncnorm(-2, 2).std()  # of a standard deviation, when a normal distribution is cut at two
HEADS = {"masked_lm": 0, "sequence": 40, "replaced_token": 1}
IMAGES = {"image_size": 32, "patch_size": 8, "vocab_size": 0, "type_vocab_size": 0}


def config(**changes):
    sizes = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
    return EncoderConfig(**(sizes | {"intermediate_size": INNER, "initializer_range": S} | changes))


def fresh(heads=HEADS, **changes):
    torch.manual_seed(3)
    return {name: tensor.detach() for name, tensor in Model(config(**changes), heads).named_parameters()}


LAYER = "encoder.layers.2."
EXPECTED = {  # of the tensors in the order of NAMES
    "normal": [S * KEPT] * 7 + [KEPT / math.sqrt(WIDTH)],
    "depth_scaled": [S * KEPT] * 3
    + [S * KEPT / math.sqrt(6)] * 2
    + [S * KEPT, S * KEPT / math.sqrt(6), KEPT / math.sqrt(WIDTH)],
    "fan_in": [KEPT / math.sqrt(n) for n in (WIDTH, WIDTH, WIDTH, WIDTH, INNER, WIDTH, WIDTH, WIDTH)],
    "xavier": [KEPT / math.sqrt(WIDTH)]
    + [
        math.sqrt(2 / n) for n in (2 * WIDTH, INNER + WIDTH, 2 * WIDTH, INNER + WIDTH, 2 * WIDTH, 2 * WIDTH, WIDTH + 40)
    ],
    "small_embedding": [1e-4 / math.sqrt(3)] + [S * KEPT] * 6 + [KEPT / math.sqrt(WIDTH)],
}
NAMES = [
    "encoder.embeddings.word",
    LAYER + "attention.query",
    LAYER + "feed_forward.up",
    LAYER + "attention.output",
    LAYER + "feed_forward.down",
    "pooler.dense",
    "heads.masked_lm.transform",
    "heads.sequence.output",
]


@pytest.mark.parametrize("scheme", EXPECTED)
def test_every_tensor_has_the_deviation_of_its_scheme(scheme):
    tensors = fresh(initializer=scheme)
    for name, expected in zip(NAMES, EXPECTED[scheme], strict=True):
        found = tensors[f"{name}.weight"]
        assert float(found.std()) == pytest.approx(expected, rel=0.04), name
        assert abs(float(found.mean())) < 4 * expected / math.sqrt(found.numel()), name


@pytest.mark.parametrize("scheme", EXPECTED)
def test_what_is_told_is_what_is_drawn(scheme):
    """Limits hold exactly; every parameter is told once, biases are 0 and norms 1."""
    torch.manual_seed(0)
    encoder = Encoder(config(initializer=scheme, conv_kernel_size=3))
    told = {name: (tensor.detach(), value) for name, tensor, value in fresh_values(encoder, encoder.config)}
    assert sorted(told) == sorted(name for name, _ in encoder.named_parameters())
    for name, (tensor, value) in told.items():
        if isinstance(value, Draw):
            assert float(tensor.abs().max()) <= value.limit * (1 + 1e-6), name
            assert float(tensor.abs().max()) > 0.9 * value.limit or tensor.numel() < 200, name
        else:
            assert torch.equal(tensor, torch.full_like(tensor, 0.0 if name.endswith("bias") else 1.0)), name


def test_the_default_draws_the_very_weights_it_always_drew():
    """Old recipes keep their weights: truncated normal numbers in the order of the modules, nothing between; only what
    says labels has got a deviation of its own."""
    ours, theirs = (Model(config(), HEADS) for _ in range(2))
    torch.manual_seed(11)
    for part in (ours.encoder, ours.pooler, ours.heads):
        initialise(part, config())
    torch.manual_seed(11)
    for part in (theirs.encoder, theirs.pooler, theirs.heads):
        for name, module in part.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                std = WIDTH**-0.5 if name.endswith("output") and part is theirs.heads else S
                nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other), name


def test_modernbert_starts_as_in_transformers():
    import transformers

    sizes = {"vocab_size": 400, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2}
    fields = sizes | {"intermediate_size": 96, "initializer_range": S}
    section = {name: value for name, value in fields.items() if name != "vocab_size"}
    ours = encoder_config(EncoderSection(name="modernbert", **section), vocab_size=400, pad_token_id=0)
    torch.manual_seed(0)
    mine = dict(Model(ours, {"masked_lm": 0, "sequence": 50}).named_parameters())
    torch.manual_seed(0)
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0)
    made = transformers.ModernBertConfig(**fields | special, num_labels=50)
    theirs = dict(transformers.ModernBertForSequenceClassification(made).named_parameters())
    pairs = {
        "encoder.embeddings.word": "model.embeddings.tok_embeddings",
        "encoder.layers.1.attention.key": "model.layers.1.attn.Wqkv",
        "encoder.layers.1.attention.output": "model.layers.1.attn.Wo",
        "encoder.layers.1.feed_forward.gate": "model.layers.1.mlp.Wi",
        "encoder.layers.1.feed_forward.down": "model.layers.1.mlp.Wo",
        "heads.masked_lm.transform": "head.dense",
        "heads.sequence.transform.dense": "head.dense",
        "heads.sequence.output": "classifier",
    }
    for name, other in pairs.items():
        expected = float(theirs[f"{other}.weight"].detach().std())
        assert float(mine[f"{name}.weight"].detach().std()) == pytest.approx(expected, rel=0.06), name


def test_depth_scaled_sums_do_not_grow_with_depth():
    """The spread of what leaves a deep pre-norm stack, before its last norm, beside one of two layers."""

    def spread(scheme, layers):
        torch.manual_seed(0)
        shape = {"num_hidden_layers": layers, "norm_place": "pre", "hidden_dropout_prob": 0.0, "position": "none"}
        encoder = Encoder(config(initializer=scheme, initializer_range=0.2, **shape)).eval()
        encoder.final_norm = nn.Identity()
        return float(encoder(torch.randint(WORDS, (4, 16))).last_hidden_state.detach().std())

    assert spread("depth_scaled", 24) < 1.3 * spread("depth_scaled", 2)
    assert spread("normal", 24) > 2 * spread("normal", 2)


def test_scaled_words_of_the_first_transformer_are_as_large_as_the_sines():
    found = encoder_config(EncoderSection(name="transformer", num_hidden_layers=1), vocab_size=500, pad_token_id=0)
    torch.manual_seed(0)
    encoder = Encoder(found).requires_grad_(False)
    assert float(encoder.embeddings.word.weight.std() * encoder.embeddings.scale) == pytest.approx(KEPT, rel=0.02)
    assert float(encoder.layers[0].attention.query.weight.abs().max()) <= math.sqrt(6 / 1024)


def test_fans_of_a_convolution_count_its_window():
    assert fans(nn.Conv2d(3, 8, 5).weight) == (75, 200)
    assert fans(nn.Linear(7, 9).weight) == (7, 9)


def test_small_embeddings_need_a_norm():
    with pytest.raises(ValueError, match="needs embedding_norm"):
        config(initializer="small_embedding", embedding_norm=False)
    with pytest.raises(ValueError, match="initializer is 'he', expected one of normal, depth_scaled"):
        config(initializer="he")


@pytest.mark.parametrize("image", [{}, IMAGES, {"position": "rotary"}], ids=["text", "image", "rotary"])
def test_an_encoder_to_be_filled_from_a_file_draws_nothing(image):
    before = torch.get_rng_state()
    filled = Encoder(config(**image), drawn=False)
    assert torch.equal(torch.get_rng_state(), before)
    drawn = Encoder(config(**image))
    assert not torch.equal(torch.get_rng_state(), before)
    assert {n: p.shape for n, p in filled.named_parameters()} == {n: p.shape for n, p in drawn.named_parameters()}
    for (name, ours), theirs in zip(filled.named_buffers(), drawn.buffers(), strict=True):
        assert torch.equal(ours, theirs), name


def test_nothing_is_drawn_only_within():
    with NothingDrawn():
        nn.Embedding(2, 3)
    assert nn.Embedding(2000, 3).weight.std().item() == pytest.approx(1, abs=0.1)
