"""ViT: patches of an image in place of tokens, a class token, norms before. Source: arXiv:2010.11929, table 1; the
sizes tiny and small are DeiT's, arXiv:2012.12877, table 1.

Its classifier reads the class token as the final norm leaves it; its hidden patches are drawn as in SimMIM,
arXiv:2111.09886. Widths of patches are those of the released models: 16, and 14 for the size huge.
"""

from typing import Any

from bertctl.encoder.config import EncoderConfig
from bertctl.variants.bert import size
from bertctl.variants.family import Family, Fields

COMMON: Fields = {
    "type_vocab_size": 0,
    "embedding_norm": False,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "position": "grid",
    "norm_place": "pre",
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
}
SAME_NAME = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "layer_norm_eps",
    "hidden_act",
    "pooler_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "image_size",
    "patch_size",
    "num_channels",
)
SIDES = ("image_size", "patch_size")


def to_hf(config: EncoderConfig) -> Fields:
    """The fields of a `ViTConfig`; what it has no field for is checked by reading it back."""
    fields = {name: getattr(config, name) for name in SAME_NAME}
    return fields | {"encoder_stride": config.patch_size, "qkv_bias": True, "pooler_output_size": config.hidden_size}


def from_hf(fields: Fields) -> EncoderConfig:
    """A `ViTConfig`'s fields as ours. Errors: ValueError for oblong images or patches, no biases of queries, keys and
    values, or a pooler of another width."""
    width = fields.get("hidden_size", 768)
    if not fields.get("qkv_bias", True):
        raise ValueError("qkv_bias is false, only true is known")
    if (fields.get("pooler_output_size") or width) != width:
        raise ValueError(f"pooler_output_size is {fields['pooler_output_size']}, expected hidden_size {width}")
    given = {name: fields[name] for name in SAME_NAME if name in fields}
    given |= {name: side(name, given[name]) for name in SIDES if name in given}
    return EncoderConfig(vocab_size=0, **{**COMMON, **size(12, 768, 12), **given})


def side(name: str, value: Any) -> int:
    """The one side of a square, which may be written as two. Errors: ValueError if these differ."""
    sides = list(value) if isinstance(value, list | tuple) else [value]
    if len(set(sides)) != 1:
        raise ValueError(f"{name} is {value!r}, only squares are known")
    return int(sides[0])


LAYER = (
    ("attention.query", "attention.attention.query"),
    ("attention.key", "attention.attention.key"),
    ("attention.value", "attention.attention.value"),
    ("attention.output", "attention.output.dense"),
    ("attention_norm", "layernorm_before"),
    ("feed_forward.up", "intermediate.dense"),
    ("feed_forward.down", "output.dense"),
    ("feed_forward_norm", "layernorm_after"),
)

VIT = Family(
    model_type="vit",
    paper="arXiv:2010.11929",
    common=COMMON,
    sizes={
        "tiny": size(12, 192, 3),
        "small": size(12, 384, 6),
        "base": size(12, 768, 12),
        "large": size(24, 1024, 16),
        "huge": size(32, 1280, 16) | {"patch_size": 14},
    },
    to_hf=to_hf,
    from_hf=from_hf,
    base="vit.",
    tensor_names=(
        ("encoder.embeddings", "{base}embeddings"),
        ("encoder.embeddings.patches", "{base}embeddings.patch_embeddings.projection"),
        ("encoder.position", "{base}embeddings"),
        *((f"encoder.layers.{{n}}.{ours}", f"{{base}}encoder.layer.{{n}}.{theirs}") for ours, theirs in LAYER),
        ("encoder.final_norm", "{base}layernorm"),
        ("pooler.dense", "{base}pooler.dense"),
        ("heads.image.output", "classifier"),
        ("heads.masked_image", "{base}embeddings"),
        ("heads.masked_image.decoder", "decoder.0"),
    ),
    architectures={
        frozenset(): "ViTModel",
        frozenset({"image"}): "ViTForImageClassification",
        frozenset({"masked_image"}): "ViTForMaskedImageModeling",
    },
)
