"""Families against transformers, in both directions, with tiny random weights; and published parameter counts.

The tests run over `VARIANTS`: a new family is covered as soon as its row is there. What reads images in place of tokens
is compared in `test_vit.py`.
"""

import json

import pytest
import torch
import transformers

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.family import reads_images
from bertctl.variants.hf import load_model, save_model
from bertctl.variants.table import VARIANTS

TINY = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 20,
    "pad_token_id": 3,
}
PAD = {"mpnet": 1}  # the only one that its code counts places from
OF_TEXTS = [family for family in VARIANTS.values() if not reads_images(family)]
CLASSES = [(family, heads, {}) for family in OF_TEXTS for heads in family.architectures]
CLASSES += [
    (VARIANTS[name], frozenset(heads), changes)
    for name, changes in (
        ("albert", {"num_hidden_groups": 2}),
        ("electra", {"embedding_size": 16}),
        ("deberta-v2", {"relative_buckets": 8, "relative_max_distance": 16}),
        ("deberta-v2", {"conv_kernel_size": 3}),
        ("deberta-v2", {"position": "learned", "type_vocab_size": 2}),
        ("modernbert", {"attention_window_tokens": 4, "pooling": "cls"}),
        ("modernbert", {"attention": ("full", "local"), "attention_window_tokens": 2, "use_bias": True}),
    )
    for heads in ((), ("masked_lm",), ("sequence",))
]
AUTO = {  # what a user calls for a set of heads
    frozenset(): "AutoModel",
    frozenset({"masked_lm", "sentence_pair"}): "AutoModelForPreTraining",
    frozenset({"masked_lm"}): "AutoModelForMaskedLM",
    frozenset({"sentence_pair"}): "AutoModelForNextSentencePrediction",
    frozenset({"replaced_token"}): "AutoModelForPreTraining",
    frozenset({"sequence"}): "AutoModelForSequenceClassification",
    frozenset({"token"}): "AutoModelForTokenClassification",
    frozenset({"span"}): "AutoModelForQuestionAnswering",
    frozenset({"choice"}): "AutoModelForMultipleChoice",
}


def own_config(family, changes=None):
    pad = {"pad_token_id": PAD.get(family.model_type, TINY["pad_token_id"])}
    return EncoderConfig(**(TINY | pad | family.common | {"max_position_embeddings": 20} | (changes or {})))


def labels_of(heads):
    """Number of labels that a published class is made for."""
    return 2 if heads & {"span", "sentence_pair"} else 3


def published(family, heads, changes=None, seed=0):
    """A random model of transformers with weights large enough to tell right from wrong."""
    torch.manual_seed(seed)
    fields = family.to_hf(own_config(family, changes)) | {"initializer_range": 0.2}
    config = transformers.AutoConfig.for_model(family.model_type, **fields, num_labels=labels_of(heads))
    model = getattr(transformers, family.architectures[heads])(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def batch(config):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 61, (3, 12), generator=generator)
    mask = torch.arange(12)[None, :] < torch.tensor([12, 7, 3])[:, None]
    types = torch.arange(12)[None, :].expand(3, 12) >= 5
    return ids.masked_fill(~mask, config.pad_token_id), mask, types.long() if config.type_vocab_size > 1 else None


def their_outputs(model, ids, mask, types, heads):
    given = {"input_ids": ids, "attention_mask": mask.long()} | ({} if types is None else {"token_type_ids": types})
    if heads == {"choice"}:  # each text is the only choice of its example
        return {"choice": model(**{name: value.unsqueeze(1) for name, value in given.items()}).logits}
    output = model(**given)
    if heads == {"span"}:
        return {"span": torch.stack((output.start_logits, output.end_logits), dim=-1)}
    if heads == {"masked_lm", "sentence_pair"}:
        pair = output.sop_logits if hasattr(output, "sop_logits") else output.seq_relationship_logits
        return {"masked_lm": output.prediction_logits, "sentence_pair": pair}
    if heads == {"replaced_token"}:
        return {"replaced_token": output.logits.unsqueeze(-1)}
    if not heads:
        return {"hidden": output.last_hidden_state, "pooled": getattr(output, "pooler_output", None)}
    return {next(iter(heads)): output.logits}


def our_outputs(model, ids, mask, types):
    output = model(ids, mask, types)
    logits = {head: model.logits(head, output) for head in model.head_outputs if head != "masked_lm"}
    if "masked_lm" in model.head_outputs:
        logits["masked_lm"] = model.masked_logits(output, torch.arange(ids.numel())).unflatten(0, ids.shape)
    if not model.head_outputs:
        pooled = model.pooler(output.last_hidden_state, None) if model.pooler is not None else None
        logits = {"hidden": output.last_hidden_state, "pooled": pooled}
    return logits


def assert_equal(mine, theirs, mask):
    assert mine.keys() == theirs.keys()
    for name in mine:
        if theirs[name] is None:
            assert mine[name] is None
            continue
        a, b = mine[name], theirs[name]
        if a.ndim == 3:  # what a model says about padding is nobody's concern
            a, b = a[mask], b[mask]
        assert (a - b).abs().max().item() <= 1e-5, name
        assert b.abs().max().item() > 0.1, f"{name}: outputs too small to tell right from wrong"


@pytest.mark.parametrize(
    ("family", "heads", "changes"), CLASSES, ids=lambda x: getattr(x, "model_type", None) or "+".join(sorted(x)) or "-"
)
@torch.no_grad()
def test_outputs_equal_transformers_in_both_directions(family, heads, changes, tmp_path):
    ids, mask, types = batch(own_config(family, changes))
    theirs = published(family, heads, changes)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = load_model(tmp_path / "theirs")
    assert (loaded.new_tensors, loaded.unused_tensors) == ([], [])
    assert set(loaded.model.head_outputs) == heads
    ours = loaded.model.eval()
    assert_equal(our_outputs(ours, ids, mask, types), their_outputs(theirs, ids, mask, types, heads), mask)

    (tmp_path / "ours").mkdir()
    save_model(tmp_path / "ours", ours, None, labels=["a", "b", "c"] if heads & {"sequence", "token"} else None)
    again, report = getattr(transformers, AUTO[heads]).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(again) is type(theirs)
    assert not any(report.values()), report
    assert_equal(our_outputs(ours, ids, mask, types), their_outputs(again.eval(), ids, mask, types, heads), mask)
    before, after = theirs.state_dict(), again.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


PUBLISHED_COUNTS = [
    # family, size, vocabulary, padding id: encoder, + pooler, masked LM with tied output
    ("bert", "tiny", 30_522, 0, 4_369_408, 4_385_920, 4_416_698),
    ("bert", "mini", 30_522, 0, 11_104_768, 11_170_560, 11_201_594),
    ("bert", "small", 30_522, 0, 28_500_992, 28_763_648, 28_795_194),
    ("bert", "medium", 30_522, 0, 41_110_528, 41_373_184, 41_404_730),
    ("bert", "base", 30_522, 0, 108_891_648, 109_482_240, 109_514_298),
    ("bert", "large", 30_522, 0, 334_092_288, 335_141_888, 335_174_458),
    ("roberta", "base", 50_265, 1, 124_055_040, 124_645_632, 124_697_433),
    ("roberta", "large", 50_265, 1, 354_310_144, 355_359_744, 355_412_057),
    ("albert", "base", 30_000, 0, 11_092_992, 11_683_584, 11_221_680),
    ("albert", "large", 30_000, 0, 16_634_368, 17_683_968, 16_795_824),
    ("albert", "xlarge", 30_000, 0, 54_528_512, 58_724_864, 54_821_040),
    ("albert", "xxlarge", 30_000, 0, 205_814_272, 222_595_584, 206_368_944),
    ("distilbert", "base", 30_522, 0, 66_362_880, None, 66_985_530),
    ("electra", "small", 30_522, 0, 13_483_008, None, 13_546_682),
    ("electra", "base", 30_522, 0, 108_891_648, None, 109_514_298),
    ("electra", "large", 30_522, 0, 334_092_288, None, 335_174_458),
    ("modernbert", "base", 50_368, 50_283, 149_014_272, None, 149_655_232),
    ("modernbert", "large", 50_368, 50_283, 394_781_696, None, 395_881_664),
    ("mpnet", "base", 30_527, 1, 108_895_872, 109_486_464, 109_518_527),
    ("deberta-v2", "xsmall", 128_100, 0, 70_682_112, None, 70_958_820),
    ("deberta-v2", "small", 128_100, 0, 141_304_320, None, 142_024_548),
    ("deberta-v2", "base", 128_100, 0, 183_831_552, None, 184_551_780),
    ("deberta-v2", "large", 128_100, 0, 434_012_160, None, 435_191_908),
    ("deberta-v2", "v2-xlarge", 128_100, 0, 884_593_152, None, 887_085_156),
    ("deberta-v2", "v2-xxlarge", 128_100, 0, 1_564_549_632, None, 1_567_041_636),
]


def formula(config):
    """Parameters of an encoder, from the sizes alone."""
    width, inner, narrow = config.hidden_size, config.intermediate_size, config.embedding_size
    bias = 1 if config.use_bias else 0
    norm, ups = (1 + bias) * width, 2 if config.feed_forward == "glu" else 1
    rows = config.vocab_size + config.type_vocab_size
    rows += config.max_position_embeddings + config.position_offset if config.position == "learned" else 0
    embeddings = (rows + 1 + bias) * (narrow or width) + (narrow * width + width if narrow else 0)
    layer = 4 * (width + bias) * width + (ups * (width + bias) + width) * inner + bias * width + 2 * norm
    outside = {"none": 0, "bucketed": config.relative_buckets * config.num_attention_heads}.get(
        config.relative_position, 2 * config.relative_buckets * width + norm
    )
    outside += width * width * config.conv_kernel_size + width + norm if config.conv_kernel_size else 0
    outside += (norm if config.norm_place == "pre" else 0) - (norm if config.skip_first_norm else 0)
    return embeddings + (1 if config.layer_sharing == "all" else config.num_hidden_layers) * layer + outside


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("name", "size", "vocab_size", "pad", "encoder", "pooled", "masked_lm"), PUBLISHED_COUNTS)
def test_parameter_counts_are_the_published_ones(name, size, vocab_size, pad, encoder, pooled, masked_lm):
    family, section = VARIANTS[name], EncoderSection(name=name, size=size)
    config = encoder_config(section, vocab_size=vocab_size, pad_token_id=pad)
    published_config = transformers.AutoConfig.for_model(name, **family.to_hf(config))
    with torch.device("meta"):
        ours = Model(config, {}, pooler=pooled is not None)
        with_head = Model(config, {"masked_lm": 0})
        theirs = transformers.AutoModel.from_config(published_config)
        theirs_with_head = transformers.AutoModelForMaskedLM.from_config(published_config)
    assert count(ours.encoder) == formula(config) == encoder
    assert count(ours) == count(theirs) == (pooled or encoder)
    assert count(with_head) == count(theirs_with_head) == masked_lm


def test_every_preset_of_a_published_format_is_counted():
    counted = {(name, size) for name, size, *_ in PUBLISHED_COUNTS}
    assert counted == {(f.model_type, size) for f in OF_TEXTS if f.architectures for size in f.sizes}


@pytest.mark.parametrize(("size", "layers"), [("base", 18_914_304), ("big", 75_577_344)])
def test_the_first_transformer_is_as_large_as_that_of_torch(size, layers):
    config = encoder_config(EncoderSection(name="transformer", size=size), vocab_size=37_000, pad_token_id=0)
    with torch.device("meta"):
        encoder = Model(config, {}).encoder
        layer = torch.nn.TransformerEncoderLayer(
            config.hidden_size, config.num_attention_heads, config.intermediate_size
        )
    assert count(encoder.layers) == config.num_hidden_layers * count(layer) == layers
    assert count(encoder) == layers + 37_000 * config.hidden_size


def test_bert_base_with_both_pretraining_heads():
    config = encoder_config(EncoderSection(), vocab_size=30_522, pad_token_id=0)
    with torch.device("meta"):
        model = Model(config, {"masked_lm": 0, "sentence_pair": 2})
    assert sum(p.numel() for p in model.parameters()) == 110_106_428


def test_what_no_published_code_expresses_says_so_and_loads_here(tmp_path):
    config = EncoderConfig(
        **TINY, norm_place="pre", position="rotary", feed_forward="glu", norm="rms", embedding_size=16
    )
    torch.manual_seed(0)
    model = Model(config, {"masked_lm": 0, "token": 3}).eval()
    save_model(tmp_path, model, None, labels=["O", "B-X", "I-X"], extra={"task": "ner"})
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bertctl"
    loaded = load_model(tmp_path)
    assert loaded.model.config == config
    assert loaded.labels == ["O", "B-X", "I-X"]
    assert loaded.extra["task"] == "ner"
    assert all(
        torch.equal(a, b) for a, b in zip(model.state_dict().values(), loaded.model.state_dict().values(), strict=True)
    )


def test_a_new_head_is_drawn_anew_and_named(tmp_path):
    published(VARIANTS["bert"], frozenset({"masked_lm", "sentence_pair"})).save_pretrained(tmp_path)
    loaded = load_model(tmp_path, {"token": 7})
    assert sorted(loaded.new_tensors) == ["heads.token.output.bias", "heads.token.output.weight"]
    assert "cls.seq_relationship.weight" in loaded.unused_tensors
    assert loaded.model.heads["token"].output.weight.shape == (7, 32)


def test_old_spellings_and_wrappers_are_read(tmp_path):
    from safetensors.torch import load_file, save_file

    published(VARIANTS["bert"], frozenset({"masked_lm"})).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    expected = load_model(tmp_path).model.state_dict()
    old = {
        "_orig_mod." + n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
        for n, t in weights.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(20)[None]
    old["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"].clone()
    save_file(old, tmp_path / "model.safetensors")
    got = load_model(tmp_path).model.state_dict()
    assert all(torch.equal(expected[name], got[name]) for name in expected)


@pytest.mark.parametrize("fault", ["missing tensor", "wrong shape", "untied output", "unknown family", "bad sizes"])
def test_faults_are_refused_by_name(fault, tmp_path):
    from safetensors.torch import load_file, save_file

    published(VARIANTS["bert"], frozenset({"masked_lm"})).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    fields = json.loads((tmp_path / "config.json").read_text())
    query = "bert.encoder.layer.1.attention.self.query.weight"
    if fault == "missing tensor":
        del weights[query]
    elif fault == "wrong shape":
        weights[query] = weights[query][:5].clone()
    elif fault == "untied output":
        weights["cls.predictions.decoder.weight"] = torch.zeros(61, 32)
    elif fault == "unknown family":
        fields["model_type"] = "bertt"
    else:
        fields["num_attention_heads"] = 5
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(fields))
    named = {
        "missing tensor": query,
        "wrong shape": query,
        "untied output": "cls.predictions.decoder",
        "unknown family": "did you mean 'bert'",
        "bad sizes": "num_attention_heads",
    }
    with pytest.raises(BertctlError) as caught:
        load_model(tmp_path)
    assert named[fault] in str(caught.value)
    assert str(tmp_path) in str(caught.value)
