"""ViT against transformers, in both directions, with tiny random weights, on images of several sizes."""

import dataclasses
import json

import pytest
import torch
import transformers

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.variants.config import EncoderSection, encoder_config
from bertctl.variants.hf import load_model, save_model
from bertctl.variants.vit import VIT

SIDE, PATCH, CHANNELS = 12, 4, 3
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": SIDE,
    "patch_size": PATCH,
}
AUTO = {
    frozenset(): "AutoModel",
    frozenset({"image"}): "AutoModelForImageClassification",
    frozenset({"masked_image"}): "AutoModelForMaskedImageModeling",
}
HEADS = [pytest.param(heads, id="+".join(heads) or "-") for heads in VIT.architectures]


def own_config(**changes):
    return EncoderConfig(vocab_size=0, **(VIT.common | TINY | changes))


def published(heads, **changes):
    """A random model of transformers with weights large enough to tell right from wrong."""
    torch.manual_seed(0)
    fields = VIT.to_hf(own_config(**changes)) | {"initializer_range": 0.2}
    model = getattr(transformers, VIT.architectures[heads])(transformers.ViTConfig(**fields, num_labels=5)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "mask_token")):
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def images(height=SIDE, width=SIDE, channels=CHANNELS):
    return torch.randn(3, channels, height, width, generator=torch.Generator().manual_seed(1))


def hidden_patches(pixels):
    places = pixels.shape[2] // PATCH * (pixels.shape[3] // PATCH)
    return torch.rand(len(pixels), places, generator=torch.Generator().manual_seed(2)) < 0.5


def their_outputs(model, pixels, heads):
    if heads == {"masked_image"}:
        mask = hidden_patches(pixels)
        found = model.vit(pixels, bool_masked_pos=mask, interpolate_pos_encoding=True).last_hidden_state
        if pixels.shape[2:] == (SIDE, SIDE):  # elsewhere their loss goes by image_size
            return {"hidden": found, "pixels": model(pixels, bool_masked_pos=mask).reconstruction}
        return {"hidden": found}
    output = model(pixels, interpolate_pos_encoding=True)
    if heads:
        return {"logits": output.logits}
    return {"hidden": output.last_hidden_state, "pooled": output.pooler_output}


def our_outputs(model, pixels, heads):
    if heads == {"masked_image"}:
        mask = hidden_patches(pixels)
        hidden = model.encoder(pixels, stand_in=(mask, model.heads["masked_image"].mask_token)).last_hidden_state
        drawn = model.masked_pixels(pixels, mask)
        assert drawn.shape == pixels.shape
        return {"hidden": hidden, **({"pixels": drawn} if pixels.shape[2:] == (SIDE, SIDE) else {})}
    output = model(pixels)
    if heads:
        return {"logits": model.logits("image", output)}
    return {"hidden": output.last_hidden_state, "pooled": model.pooler(output.last_hidden_state, None)}


def assert_equal(mine, theirs):
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert (mine[name] - theirs[name]).abs().max().item() <= 1e-5, name
        assert theirs[name].abs().max().item() > 0.1, f"{name}: outputs too small to tell right from wrong"


@pytest.mark.parametrize("size", [(SIDE, SIDE), (20, 20), (8, 16), (4, 36)], ids=str)
@pytest.mark.parametrize("heads", HEADS)
@torch.no_grad()
def test_outputs_equal_transformers_in_both_directions(heads, size, tmp_path):
    pixels, theirs = images(*size), published(heads)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = load_model(tmp_path / "theirs")
    assert (loaded.new_tensors, loaded.unused_tensors) == ([], [])
    assert set(loaded.model.head_outputs) == heads
    ours = loaded.model.eval()
    assert_equal(our_outputs(ours, pixels, heads), their_outputs(theirs, pixels, heads))

    (tmp_path / "ours").mkdir()
    save_model(tmp_path / "ours", ours, None, labels=list("abcde") if heads == {"image"} else None)
    again, report = getattr(transformers, AUTO[heads]).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(again) is type(theirs)
    assert not any(report.values()), report
    assert_equal(our_outputs(ours, pixels, heads), their_outputs(again.eval(), pixels, heads))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    if heads == {"image"}:
        assert again.config.id2label == dict(enumerate("abcde"))


@torch.no_grad()
def test_shades_of_grey(tmp_path):
    heads = frozenset({"image"})
    theirs, pixels = published(heads, num_channels=1), images(channels=1)
    theirs.save_pretrained(tmp_path)
    assert_equal(our_outputs(load_model(tmp_path).model.eval(), pixels, heads), their_outputs(theirs, pixels, heads))


# arXiv:2010.11929, table 1, says 86, 307 and 632 million; arXiv:2012.12877, table 1, says 5 and 22 for the first two.
# size: encoder, + pooler, + classifier of ImageNet's 1000 classes, + head for hidden patches
PUBLISHED_COUNTS = [
    ("tiny", 5_524_416, 5_561_472, 5_717_416, 5_672_832),
    ("small", 21_665_664, 21_813_504, 22_050_664, 21_961_728),
    ("base", 85_798_656, 86_389_248, 86_567_656, 86_390_016),
    ("large", 303_301_632, 304_351_232, 304_326_632, 304_089_856),
    ("huge", 630_764_800, 632_404_480, 632_045_800, 631_519_308),
]


def formula(config):
    """Parameters of an encoder, from the sizes alone."""
    width, inner = config.hidden_size, config.intermediate_size
    patch = config.num_channels * config.patch_size**2
    places = (config.image_size // config.patch_size) ** 2 + 1
    layer = 4 * (width + 1) * width + (width + 1) * inner + (inner + 1) * width + 4 * width
    return (patch + 1) * width + width + places * width + config.num_hidden_layers * layer + 2 * width


@pytest.mark.parametrize(("size", "encoder", "pooled", "classifier", "masked"), PUBLISHED_COUNTS)
def test_parameter_counts_are_the_published_ones(size, encoder, pooled, classifier, masked):
    config = encoder_config(EncoderSection(name="vit", size=size), vocab_size=0, pad_token_id=0)
    published_config = transformers.ViTConfig(**VIT.to_hf(config), num_labels=1000)
    with torch.device("meta"):
        ours = [Model(config, {}, pooler=True), Model(config, {"image": 1000}), Model(config, {"masked_image": 0})]
        theirs = [getattr(transformers, name)(published_config) for name in VIT.architectures.values()]
    counts = [sum(p.numel() for p in model.parameters()) for model in ours]
    assert counts == [sum(p.numel() for p in model.parameters()) for model in theirs] == [pooled, classifier, masked]
    assert sum(p.numel() for p in ours[0].encoder.parameters()) == formula(config) == encoder


def test_every_size_is_counted():
    assert {size for size, *_ in PUBLISHED_COUNTS} == set(VIT.sizes)


def test_a_head_for_hidden_patches_is_drawn_anew_and_its_vector_goes_with_it(tmp_path):
    """Pretraining may start from any encoder, and fine-tuning from a pretrained one."""
    published(frozenset()).save_pretrained(tmp_path / "bare")
    fresh = load_model(tmp_path / "bare", {"masked_image": 0})
    assert {name.removeprefix("heads.masked_image.") for name in fresh.new_tensors} == {
        "mask_token",
        "decoder.weight",
        "decoder.bias",
    }
    published(frozenset({"masked_image"})).save_pretrained(tmp_path / "masked")
    classifier = load_model(tmp_path / "masked", {"image": 4})
    assert sorted(classifier.new_tensors) == ["heads.image.output.bias", "heads.image.output.weight"]
    assert "vit.embeddings.mask_token" in classifier.unused_tensors


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image_size": [12, 16]}, "image_size is"),
        ({"qkv_bias": False}, "qkv_bias is false"),
        ({"pooler_output_size": 7}, "pooler_output_size is 7"),
        ({"patch_size": 5}, "not a multiple of patch_size 5"),
    ],
)
def test_what_is_computed_otherwise_is_refused_by_name(fields, message, tmp_path):
    published(frozenset()).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | fields))
    with pytest.raises(BertctlError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "changes", [{"position": "rotary"}, {"norm": "rms"}, {"feed_forward": "glu"}, {"pooling": "mean"}]
)
@torch.no_grad()
def test_what_no_published_code_expresses_loads_here(changes, tmp_path):
    torch.manual_seed(0)
    model = Model(own_config(**changes), {"image": 2}).eval()
    save_model(tmp_path, model, None, labels=["a", "b"])
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bertctl"
    loaded = load_model(tmp_path)
    assert loaded.labels == ["a", "b"]
    assert dataclasses.asdict(loaded.model.config) == dataclasses.asdict(model.config)
    heads = frozenset({"image"})
    assert torch.equal(
        our_outputs(loaded.model.eval(), images(), heads)["logits"], our_outputs(model, images(), heads)["logits"]
    )
